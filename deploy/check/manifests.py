#!/usr/bin/env python3
"""Validates manifests on standard input against the Kubernetes API.

    kubectl kustomize deploy/kubernetes/base | deploy/check/manifests.py swagger.json CRDS

The description of the API is api/openapi-spec/swagger.json of the Go module k8s.io/kubernetes; CRDS is a
folder with the custom resource definitions of the Prometheus operator. An unknown field or kind is an
error, as with `kubectl apply --validate=strict`. Every selector must match a pod or Service of the
manifests. Scrapers must be sent to the port of [admin]. With --published, no Service with an address may
expose that port, and every image needs a version. No container may get SIGTERM before drain_delay is
over.
"""
import json
import pathlib
import re
import sys
import tomllib

import jsonschema
import yaml


def strict(schema, definitions):
    """The schema without additional fields. The declared type of `int-or-string` is wrong and replaced."""
    if isinstance(schema, list):
        return [strict(part, definitions) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("format") == "int-or-string":
        return {"type": ["integer", "string"]}
    changed = {key: strict(part, definitions) for key, part in schema.items() if key not in ("description", "format")}
    if isinstance(schema.get("properties"), dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        changed.setdefault("additionalProperties", False)
    return changed


def api_schemas(path):
    """The schema of every kind of the Kubernetes API."""
    with open(path, encoding="utf-8") as file:
        definitions = json.load(file)["definitions"]
    # A quantity may also be a number.
    definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"] = {"type": ["string", "number"]}
    all_strict = strict(definitions, definitions)
    schemas = {}
    for name, definition in definitions.items():
        for kind in definition.get("x-kubernetes-group-version-kind", []):
            group = f"{kind['group']}/" if kind["group"] else ""
            schemas[f"{group}{kind['version']} {kind['kind']}"] = {"$ref": f"#/definitions/{name}", "definitions": all_strict}
    return schemas


def custom_schemas(folder, kinds):
    """The schema of every custom resource of these kinds."""
    schemas = {}
    for file in pathlib.Path(folder).glob("*_*.yaml"):
        if file.stem.partition("_")[2].removesuffix("s") not in {kind.lower() for kind in kinds}:
            continue
        spec = yaml.safe_load(file.read_text(encoding="utf-8"))["spec"]
        for version in spec["versions"]:
            kind = f"{spec['group']}/{version['name']} {spec['names']['kind']}"
            schemas[kind] = strict(version["schema"]["openAPIV3Schema"], {})
    return schemas


def unmatched(documents):
    """Selectors that do not match exactly one pod template, or one Service for a ServiceMonitor."""
    pods = [one["spec"]["template"]["metadata"]["labels"] for one in documents if "template" in one.get("spec", {})]
    services = [one["metadata"]["labels"] for one in documents if one["kind"] == "Service" and "labels" in one["metadata"]]
    for document in documents:
        kind, spec = document["kind"], document.get("spec", {})
        selector = spec.get("podSelector") or spec.get("selector")
        if selector is None:
            continue
        if kind == "Service":
            selector = {"matchLabels": selector}
        count = sum(selects(selector, labels) for labels in (services if kind == "ServiceMonitor" else pods))
        if count != 1:
            yield f"{kind} {document['metadata']['name']}: the selector matches {count} objects instead of one"


def selects(selector, labels):
    """Whether a label selector matches; of the operators only `In` is known."""
    for one in selector.get("matchExpressions", []):
        if one["operator"] != "In" or labels.get(one["key"]) not in one["values"]:
            return False
    return selector.get("matchLabels", {}).items() <= labels.items()


def configuration(documents):
    """The doorbell.toml of these manifests."""
    for document in documents:
        text = document.get("data", {}).get("doorbell.toml") if document["kind"] == "ConfigMap" else None
        if text is not None:
            return tomllib.loads(text)
    return {}


def admin_port(documents):
    """The port of [admin] in these manifests, or None."""
    admin = configuration(documents).get("admin")
    return None if admin is None else int(admin.get("bind", ":9130").rsplit(":", 1)[1])


def seconds(text):
    """A duration of a configuration file in seconds."""
    units = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
    return sum(float(number) * units[unit] for number, unit in re.findall(r"(\d+)(ms|s|m|h)", text))


def endings(documents):
    """Problems with the end of pods. The kubelet sends SIGTERM to a container after its hook, and SIGKILL
    to all containers after the grace period, which includes the hooks."""
    lifecycle = configuration(documents).get("lifecycle", {})
    delay, timeout = seconds(lifecycle.get("drain_delay", "5s")), seconds(lifecycle.get("drain_timeout", "20s"))
    for document in documents:
        pod = document.get("spec", {}).get("template", {}).get("spec")
        if pod is None:
            continue
        title = f"{document['kind']} {document['metadata']['name']}"
        grace = pod.get("terminationGracePeriodSeconds", 30)
        if grace < delay + timeout:
            yield f"{title}: a grace period of {grace} s is less than drain_delay plus drain_timeout, {delay + timeout} s"
        # Init containers other than sidecars have exited by then.
        sidecars = [one for one in pod.get("initContainers", []) if one.get("restartPolicy") == "Always"]
        for container in sidecars + pod["containers"]:
            hook = container.get("lifecycle", {}).get("preStop", {})
            if container["name"] == "doorbell":
                blocks = hook.get("exec", {}).get("command", [])[:2] == ["/doorbell", "prestop"]
            else:
                blocks = hook.get("sleep", {}).get("seconds", 0) >= delay
            if not blocks:
                yield f"{title}: {container['name']} gets SIGTERM before drain_delay ({delay} s) is over"


def container_ports(documents):
    """The ports of the containers of all pods, by name."""
    named = {}
    for document in documents:
        pod = document.get("spec", {}).get("template", {}).get("spec", {})
        for container in pod.get("initContainers", []) + pod.get("containers", []):
            named.update({port["name"]: port["containerPort"] for port in container.get("ports", [])})
    return named


def published(documents):
    """Services with an address that expose the admin port, and images with a moving tag."""
    for document in documents:
        title = f"{document['kind']} {document['metadata']['name']}"
        if document["kind"] == "Service" and document["spec"].get("clusterIP") != "None":
            for port in document["spec"]["ports"]:
                if port["port"] == admin_port(documents) and len(document["spec"]["ports"]) > 1:
                    yield f"{title}: exposes the admin port beside the app"
        pod = document.get("spec", {}).get("template", {}).get("spec", {})
        for container in pod.get("initContainers", []) + pod.get("containers", []):
            if container["image"].rpartition("/")[2].partition(":")[2] in ("", "latest"):
                yield f"{title}: the image of {container['name']} has no version"


def scraped_ports(documents):
    """The ports that scrapers are sent to, by annotation or by the name of a port."""
    named = {}
    for document in documents:
        if document["kind"] == "Service":
            named.update({port["name"]: port["port"] for port in document["spec"]["ports"]})
    for document in documents:
        title = f"{document['kind']} {document['metadata']['name']}"
        template = document.get("spec", {}).get("template", {})
        annotated = (template.get("metadata", {}).get("annotations") or {}).get("prometheus.io/port")
        if annotated is not None:
            yield title, int(annotated)
        if document["kind"] == "PodMonitor":
            for endpoint in document["spec"]["podMetricsEndpoints"]:
                yield title, container_ports(documents).get(endpoint["port"])
        if document["kind"] == "ServiceMonitor":
            for endpoint in document["spec"]["endpoints"]:
                yield title, named.get(endpoint["port"])


def main():
    documents = [document for document in yaml.safe_load_all(sys.stdin) if document is not None]
    kinds = {document["kind"] for document in documents}
    schemas = api_schemas(sys.argv[1]) | custom_schemas(sys.argv[2], kinds)
    bad = 0
    for document in documents:
        kind = f"{document['apiVersion']} {document['kind']}"
        title = f"{document['kind']} {document['metadata']['name']}"
        if kind not in schemas:
            print(f"{title}: {kind} is not known")
            bad += 1
            continue
        errors = list(jsonschema.Draft4Validator(schemas[kind]).iter_errors(document))
        bad += len(errors)
        for error in errors:
            print(f"{title}: {'.'.join(str(part) for part in error.absolute_path)}: {error.message[:200]}")
        if not errors:
            print(f"{title}: good")
    for title, port in scraped_ports(documents):
        if port != admin_port(documents):
            print(f"{title}: metrics are scraped at port {port}, but [admin] has {admin_port(documents)}")
            bad += 1
    mistakes = [*endings(documents), *unmatched(documents)]
    if "--published" in sys.argv:
        mistakes += published(documents)
    for mistake in mistakes:
        print(mistake)
        bad += 1
    if not documents:
        sys.exit("there is no manifest")
    sys.exit(1 if bad else 0)


main()
