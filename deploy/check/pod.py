#!/usr/bin/env python3
"""Runs the doorbell container of manifests on standard input as the kubelet would.

    helm template ... | deploy/check/pod.py PROGRAM OBJECTS

OBJECTS/NAME/KEY is the content of Secrets and ConfigMaps that the manifests do not contain. The container
has a network, a read-only root and volumes of its own, and as root also the user and group of the pod. Its
configuration must pass `doorbell validate --strict`; its probes, metrics, a changed configuration, the
preStop hook and SIGTERM must work. The app beside it and the targets of checks do not run, so readiness
may fail.
"""
import http.client
import os
import pathlib
import ssl
import subprocess
import sys
import tempfile
import time

import yaml

PATIENCE = 120  # seconds; only a failure takes as long
# An unused limit: a route would take the place of the built-in routes of a configuration without any.
ADDED = '\n[limit.added_later]\nrate = "1/s"\n'


def mount(*arguments):
    subprocess.run(["mount", *map(str, arguments)], check=True)


def wait_for(what, condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {PATIENCE} s: {what}")
        time.sleep(0.1)


class Volume:
    """A mounted ConfigMap or Secret, which the kubelet replaces through the link `..data`."""

    def __init__(self, folder, mode, group):
        self.folder, self.mode, self.group, self.version = folder, mode, group, 0

    def write(self, content):
        self.version += 1
        new = self.folder / f"..{self.version}"
        new.mkdir()
        for key, value in content.items():
            (new / key).write_text(value, encoding="utf-8")
            if self.group is not None:
                os.chown(new / key, 0, self.group)
            (new / key).chmod(self.mode)
            if not (self.folder / key).is_symlink():
                (self.folder / key).symlink_to(f"..data/{key}")
        (self.folder / "..data_tmp").symlink_to(new.name)
        (self.folder / "..data_tmp").rename(self.folder / "..data")


class Pod:
    def __init__(self, documents, objects, program):
        self.objects = objects
        self.contents = {one["metadata"]["name"]: one["data"] for one in documents if one["kind"] == "ConfigMap"}
        self.spec, self.container = self.find(documents)
        is_root = os.environ["AS_ROOT"] == "1"
        context = self.spec.get("securityContext", {})
        self.user = context.get("runAsUser", 65532) if is_root else None
        self.group = context.get("fsGroup", 65532) if is_root else None
        self.ports = {port["name"]: port["containerPort"] for port in self.container["ports"]}
        self.base = pathlib.Path(tempfile.mkdtemp())
        self.root = self.base / "root"
        self.volumes, self.config = {}, None
        self.build(program)

    @staticmethod
    def find(documents):
        for document in documents:
            spec = document.get("spec", {}).get("template", {}).get("spec", {})
            for container in spec.get("initContainers", []) + spec.get("containers", []):
                if container["name"] == "doorbell":
                    return spec, container
        sys.exit("there is no container `doorbell`")

    def content(self, name):
        """The keys of a Secret or ConfigMap."""
        if name in self.contents:
            return self.contents[name]
        folder = self.objects / name
        return {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()}

    def build(self, program):
        """The root of the container: the libraries of this machine, the program and the volumes."""
        mount("-t", "tmpfs", "tmpfs", self.base)
        store = self.base / "volumes"
        store.mkdir()
        self.root.mkdir()
        mount("--bind", self.root, self.root)
        for name in ("usr", "lib", "lib64", "bin", "proc", "dev"):
            source, target = pathlib.Path("/", name), self.root / name
            if source.is_symlink():
                target.symlink_to(source.readlink())
            elif source.is_dir():
                target.mkdir()
                mount("--rbind", source, target)
        (self.root / "doorbell").touch()
        mount("--bind", program, self.root / "doorbell")
        for volume in self.spec["volumes"]:
            self.add_volume(store / volume["name"], volume)
        for one in self.container["volumeMounts"]:
            target = self.root / one["mountPath"].lstrip("/")
            target.mkdir(parents=True, exist_ok=True)
            mount("--bind", store / one["name"], target)
            if one.get("readOnly"):
                mount("-o", "remount,bind,ro", target)
        mount("-o", "remount,bind,ro", self.root)
        self.config = self.volumes[self.mounted_at("/etc/doorbell")]

    def mounted_at(self, path):
        return next(one["name"] for one in self.container["volumeMounts"] if one["mountPath"] == path)

    def add_volume(self, folder, volume):
        folder.mkdir()
        kind = next(key for key in volume if key != "name")
        source = volume[kind]
        if kind in ("configMap", "secret"):
            # With fsGroup the kubelet gives the group the right to read.
            mode = source.get("defaultMode", 0o644) | 0o440
            self.volumes[volume["name"]] = Volume(folder, mode, self.group)
            self.volumes[volume["name"]].write(self.content(source.get("name") or source["secretName"]))
        elif kind == "emptyDir":
            folder.chmod(0o2777)
            if self.group is not None:
                os.chown(folder, 0, self.group)
        elif kind != "hostPath":
            sys.exit(f"volumes of type {kind} are not known here")

    def environment(self):
        result = {"PATH": "/"}
        for source in self.container.get("envFrom", []):
            (reference,) = (source[key] for key in ("secretRef", "configMapRef") if key in source)
            result.update(self.content(reference["name"]))
        for one in self.container.get("env", []):
            source = one.get("valueFrom", {})
            reference = source.get("secretKeyRef") or source.get("configMapKeyRef")
            if reference:
                result[one["name"]] = self.content(reference["name"])[reference["key"]]
            else:
                result[one["name"]] = one.get("value", "127.0.0.1" if "fieldRef" in source else "")
        return result

    def start(self, command, **options):
        def enter():
            os.chroot(self.root)
            os.chdir("/")
            if self.user is not None:
                os.setgroups([self.group])
                os.setgid(self.user)
                os.setuid(self.user)

        return subprocess.Popen(command, env=self.environment(), preexec_fn=enter, **options)

    def get(self, port, path, scheme="HTTP"):
        """The status and body of a reply; None without a reply. As the kubelet, trusts any certificate."""
        if scheme == "HTTPS":
            any_certificate = ssl.create_default_context()
            any_certificate.check_hostname, any_certificate.verify_mode = False, ssl.CERT_NONE
            connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=any_certificate)
        else:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        except OSError:
            return None, ""
        finally:
            connection.close()

    def probe(self, kind):
        request = self.container[kind]["httpGet"]
        port = self.ports.get(request["port"], request["port"])
        return self.get(port, request["path"], request.get("scheme", "HTTP"))[0]


def live(pod, process):
    """The life of the container from its start to its end."""
    first = "startupProbe" if "startupProbe" in pod.container else "livenessProbe"
    wait_for("the first probe succeeds", lambda: process.poll() is not None or pod.probe(first) == 200)
    assert process.poll() is None, "the program has ended"
    assert pod.probe("livenessProbe") == 200, "not alive"
    assert pod.probe("readinessProbe") in (200, 503), "the readiness probe has no route"
    status, metrics = pod.get(pod.ports["admin"], "/metrics")
    assert status == 200 and "doorbell_build_info" in metrics, "no metrics at the port `admin`"
    assert "\ndoorbell_config_generation 1.0\n" in metrics, "not the first generation"
    pod.config.write({"doorbell.toml": (pod.config.folder / "doorbell.toml").read_text(encoding="utf-8") + ADDED})
    wait_for("a changed configuration is in use", lambda: "\ndoorbell_config_generation 2.0\n" in pod.get(pod.ports["admin"], "/metrics")[1])
    assert process.poll() is None, "a changed configuration ended the program"
    hook = pod.container["lifecycle"]["preStop"]["exec"]["command"]
    assert pod.start(hook, stdout=subprocess.DEVNULL).wait(PATIENCE) == 0, "the preStop hook fails"
    assert pod.probe("livenessProbe") == 200, "not alive after the preStop hook"
    assert pod.probe("readinessProbe") == 503, "ready after the preStop hook"
    process.terminate()
    assert process.wait(PATIENCE) == 0, "SIGTERM did not end the program with exit code 0"


def end(pod, process):
    if process is not None:
        process.kill()
        process.wait()
    subprocess.run(["umount", "-l", pod.base], check=True)
    pod.base.rmdir()


def main():
    program, objects = sys.argv[1], pathlib.Path(sys.argv[2])
    if "AS_ROOT" not in os.environ:
        os.environ["AS_ROOT"] = "1" if os.geteuid() == 0 else "0"
        flags = "-nm" if os.geteuid() == 0 else "-rnm"
        os.execvp("unshare", ["unshare", flags, sys.executable, *sys.argv])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    mount("--make-rprivate", "/")
    documents = [document for document in yaml.safe_load_all(sys.stdin) if document is not None]
    pod = Pod(documents, objects, program)
    log_path = pod.base / "log"
    process = None
    with open(log_path, "wb") as log:
        try:
            validation = pod.start(["/doorbell", "validate", "--strict", "-c", "/etc/doorbell/doorbell.toml"], stdout=log, stderr=log)
            assert validation.wait(PATIENCE) == 0, "the configuration is not valid"
            process = pod.start(["/doorbell", *pod.container["args"]], stdout=log, stderr=log)
            live(pod, process)
        except AssertionError as error:
            print(log_path.read_text(encoding="utf-8", errors="replace"))
            sys.exit(f"as a pod: {error}")
        finally:
            end(pod, process)
    print("as a pod: good")


main()
