#!/usr/bin/env python3
"""Prints the config.json of a container with an unprivileged user and no capabilities.

    deploy/check/bundle.py ROOTFS PROFILE [ERRNO] -- ARGS...
    deploy/check/bundle.py --docker LINE IMAGE FOLDER ROOTFS PROFILE

Follows the "restricted" profile of Kubernetes; only the folder of the control socket is writable. With
--docker, follows this `docker run` line; IMAGE is the output of `buildah inspect` and FOLDER the working
directory. PROFILE has the format of Docker and containers-common; ERRNO replaces the errno of denied
calls.
"""
import json
import os
import shlex
import sys


def tmpfs(text):
    """The mount of a `--tmpfs` option of Docker."""
    path, _, options = text.partition(":")
    defaults = ["noexec", "nosuid", "nodev"]
    return {"destination": path, "type": "tmpfs", "source": "tmpfs", "options": defaults + [one for one in options.split(",") if one]}


def bound(text, folder):
    """The mount of a `-v` option of Docker."""
    source, path, *options = text.split(":")
    source = os.path.join(folder, source)
    return {"destination": path, "type": "bind", "source": source, "options": ["rbind"] + "".join(options).split(",")}


def docker(line, image, folder):
    """The container of a `docker run` line. Exits on an unknown option, which would be ignored otherwise."""
    words = shlex.split(line)
    asked = {"readonly": False, "mounts": [], "env": [], "profile": None}
    position = 2
    while words[position].startswith("-"):
        option = words[position]
        position += 1
        if option == "--read-only":
            asked["readonly"] = True
            continue
        value = words[position]
        position += 1
        if option == "--tmpfs":
            asked["mounts"].append(tmpfs(value))
        elif option == "-v":
            asked["mounts"].append(bound(value, folder))
        elif option == "-e":
            asked["env"].append(value)
        elif option == "--security-opt" and value.startswith("seccomp="):
            asked["profile"] = value.removeprefix("seccomp=")
        elif (option, value) != ("--cap-drop", "ALL") and option not in ("-p", "--stop-timeout"):
            sys.exit(f"{option} {value} is not known here")
    with open(image, encoding="utf-8") as file:
        config = json.load(file)["Docker"]["config"]
    asked["args"] = config["Entrypoint"] + (words[position + 1 :] or config["Cmd"])
    asked["user"] = dict(zip(("uid", "gid"), map(int, config["User"].split(":"))))
    return asked


namespaces = ["pid", "ipc", "uts", "mount"]
if sys.argv[1] == "--docker":
    asked = docker(*sys.argv[2:5])
    rootfs, profile_file, *errno = sys.argv[5:]
    # A network of its own: all lines use the same ports.
    namespaces.append("network")
else:
    end = sys.argv.index("--")
    rootfs, profile_file, *errno = sys.argv[1:end]
    asked = {
        "readonly": True,
        "mounts": [tmpfs("/run/doorbell:uid=65532,gid=65532,mode=0755")],
        "env": [],
        "profile": None,
        "args": sys.argv[end + 1 :],
        "user": {"uid": 65532, "gid": 65532},
    }
with open(asked["profile"] or profile_file, encoding="utf-8") as file:
    profile = json.load(file)


def applies(rule):
    """Whether a rule applies to this architecture and to a process without capabilities."""
    wants, wants_not = rule.get("includes") or {}, rule.get("excludes") or {}
    arch = "amd64"
    if wants.get("caps") or (wants.get("arches") and arch not in wants["arches"]):
        return False
    return arch not in (wants_not.get("arches") or [])


syscalls = []
for rule in profile["syscalls"]:
    if not applies(rule) or rule["action"] != "SCMP_ACT_ALLOW":
        continue
    kept = {"names": rule.get("names") or [rule["name"]], "action": rule["action"]}
    if rule.get("args"):
        kept["args"] = [{key: part[key] for key in ("index", "value", "valueTwo", "op") if key in part} for part in rule["args"]]
    syscalls.append(kept)

print(
    json.dumps(
        {
            "ociVersion": "1.0.2",
            "process": {
                "user": asked["user"],
                "args": asked["args"],
                "env": ["PATH=/", *asked["env"]],
                "cwd": "/",
                "capabilities": {kind: [] for kind in ("bounding", "effective", "inheritable", "permitted", "ambient")},
                "noNewPrivileges": True,
            },
            "root": {"path": rootfs, "readonly": asked["readonly"]},
            "hostname": "doorbell",
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc"},
                {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "strictatime", "mode=755", "size=65536k"]},
                *asked["mounts"],
            ],
            "linux": {
                # Without a network namespace the network is the host's.
                "namespaces": [{"type": kind} for kind in namespaces],
                "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list"],
                "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
                "seccomp": {
                    "defaultAction": profile["defaultAction"],
                    "defaultErrnoRet": int(errno[0]) if errno else profile.get("defaultErrnoRet", 1),
                    "architectures": ["SCMP_ARCH_X86_64"],
                    "syscalls": syscalls,
                },
            },
        },
        indent=1,
    )
)
