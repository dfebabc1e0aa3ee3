#!/usr/bin/env python3
"""Manifests on standard input against the API of Kubernetes.

    kubectl kustomize deploy/kubernetes/base | deploy/check/manifests.py swagger.json

The description of the API is api/openapi-spec/swagger.json of the Go module k8s.io/kubernetes. A field that the API does not have is
an error, as with `kubectl apply --validate=strict`. What no API server has by itself (ServiceMonitor) is only parsed. Whoever scrapes must
be sent to the port of [admin]; with --published no Service with an address may give that port away and no image be without a version. No container may get SIGTERM before load balancers had drain_delay to hear of the end.
"""
import json
import re
import sys
import tomllib

import jsonschema
import yaml


def strict(schema, definitions):
    """The schema with no other fields than those it names. `int-or-string` has a type that it does not mean."""
    if isinstance(schema, list):
        return [strict(part, definitions) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("format") == "int-or-string":
        return {"type": ["integer", "string"]}
    changed = {key: strict(part, definitions) for key, part in schema.items() if key not in ("description", "format")}
    if isinstance(schema.get("properties"), dict):
        changed.setdefault("additionalProperties", False)
    return changed


def configuration(documents):
    """The doorbell.toml of these manifests."""
    for document in documents:
        text = document.get("data", {}).get("doorbell.toml") if document["kind"] == "ConfigMap" else None
        if text is not None:
            return tomllib.loads(text)
    return {}


def admin_port(documents):
    """Where the doorbell of these manifests has its metrics; None without [admin]."""
    admin = configuration(documents).get("admin")
    return None if admin is None else int(admin.get("bind", ":9130").rsplit(":", 1)[1])


def seconds(text):
    """A length of time as doorbell writes it."""
    units = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
    return sum(float(number) * units[unit] for number, unit in re.findall(r"(\d+)(ms|s|m|h)", text))


def endings(documents):
    """What is wrong with how pods end. The kubelet sends SIGTERM to a container when its hook is over, and SIGKILL to all of them when the
    grace period is, of which hooks are a part."""
    lifecycle = configuration(documents).get("lifecycle", {})
    delay, timeout = seconds(lifecycle.get("drain_delay", "5s")), seconds(lifecycle.get("drain_timeout", "20s"))
    for document in documents:
        pod = document.get("spec", {}).get("template", {}).get("spec")
        if pod is None:
            continue
        title = f"{document['kind']} {document['metadata']['name']}"
        grace = pod.get("terminationGracePeriodSeconds", 30)
        if grace < delay + timeout:
            yield f"{title}: a grace period of {grace} s is less than drain_delay and drain_timeout, {delay + timeout} s"
        # Init containers that are no sidecars are gone when the pod ends.
        sidecars = [one for one in pod.get("initContainers", []) if one.get("restartPolicy") == "Always"]
        for container in sidecars + pod["containers"]:
            hook = container.get("lifecycle", {}).get("preStop", {})
            if container["name"] == "doorbell":
                blocks = hook.get("exec", {}).get("command", [])[:2] == ["/doorbell", "prestop"]
            else:
                blocks = hook.get("sleep", {}).get("seconds", 0) >= delay
            if not blocks:
                yield f"{title}: {container['name']} gets SIGTERM before load balancers had {delay} s to hear of it"


def container_ports(documents):
    """The ports of the containers of all pods, by name."""
    named = {}
    for document in documents:
        pod = document.get("spec", {}).get("template", {}).get("spec", {})
        for container in pod.get("initContainers", []) + pod.get("containers", []):
            named.update({port["name"]: port["containerPort"] for port in container.get("ports", [])})
    return named


def published(documents):
    """What a Service gives away that has an address of its own, and so may become that of a load balancer; and images that change by themselves."""
    for document in documents:
        title = f"{document['kind']} {document['metadata']['name']}"
        if document["kind"] == "Service" and document["spec"].get("clusterIP") != "None":
            for port in document["spec"]["ports"]:
                if port["port"] == admin_port(documents) and len(document["spec"]["ports"]) > 1:
                    yield f"{title}: metrics and the status page go where the app goes"
        pod = document.get("spec", {}).get("template", {}).get("spec", {})
        for container in pod.get("initContainers", []) + pod.get("containers", []):
            if container["image"].rpartition("/")[2].partition(":")[2] in ("", "latest"):
                yield f"{title}: the image of {container['name']} has no version"


def scraped_ports(documents):
    """Who sends a scraper where: by annotation, or by the name of a port."""
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
    with open(sys.argv[1], encoding="utf-8") as file:
        definitions = json.load(file)["definitions"]
    # A quantity may be written as a number.
    definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"] = {"type": ["string", "number"]}
    kinds = {}
    for name, definition in definitions.items():
        for kind in definition.get("x-kubernetes-group-version-kind", []):
            group = f"{kind['group']}/" if kind["group"] else ""
            kinds[f"{group}{kind['version']} {kind['kind']}"] = name
    all_strict = strict(definitions, definitions)
    documents = [document for document in yaml.safe_load_all(sys.stdin) if document is not None]
    bad = 0
    for document in documents:
        kind = f"{document['apiVersion']} {document['kind']}"
        title = f"{document['kind']} {document['metadata']['name']}"
        if kind not in kinds:
            print(f"{title}: {kind} is not of the API itself; parsed only")
            continue
        schema = {"$ref": f"#/definitions/{kinds[kind]}", "definitions": all_strict}
        errors = list(jsonschema.Draft4Validator(schema).iter_errors(document))
        bad += len(errors)
        for error in errors:
            print(f"{title}: {'.'.join(str(part) for part in error.absolute_path)}: {error.message[:200]}")
        if not errors:
            print(f"{title}: good")
    for title, port in scraped_ports(documents):
        if port != admin_port(documents):
            print(f"{title}: metrics are scraped at port {port}, and [admin] has {admin_port(documents)}")
            bad += 1
    mistakes = list(endings(documents))
    if "--published" in sys.argv:
        mistakes += published(documents)
    for mistake in mistakes:
        print(mistake)
        bad += 1
    if not documents:
        sys.exit("there is no manifest")
    sys.exit(1 if bad else 0)


main()
