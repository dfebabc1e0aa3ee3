#!/usr/bin/env python3
"""Whom the probes of manifests on standard input are about.

    kubectl kustomize deploy/kubernetes/base | deploy/check/probes.py

A kubelet restarts a container that is not alive: of doorbell's own container that must be doorbell itself, with no check behind the answer, and of
every other one what is checked. Ready is what is checked, too. Paths that the doorbell.toml of the manifests has no route for are not looked at.
"""
import sys
import tomllib

import yaml


def required(documents):
    """The checks that are required behind each path."""
    checks = {}
    for document in documents:
        text = document.get("data", {}).get("doorbell.toml") if document["kind"] == "ConfigMap" else None
        file = tomllib.loads(text or "")
        for route in file.get("route", {}).values():
            paths = route["path"] if isinstance(route["path"], list) else [route["path"]]
            names = file.get("health", {}).get(route.get("health"), {}).get("require", [])
            checks.update({path: names for path in paths})
    return checks


def containers(documents):
    for document in documents:
        pod = document.get("spec", {}).get("template", {}).get("spec", {})
        yield from pod.get("initContainers", []) + pod.get("containers", [])


def main():
    documents = [document for document in yaml.safe_load_all(sys.stdin) if document is not None]
    checks = required(documents)
    bad = looked_at = 0
    for container in containers(documents):
        for kind in ("livenessProbe", "readinessProbe"):
            path = container.get(kind, {}).get("httpGet", {}).get("path")
            if path not in checks:
                continue
            looked_at += 1
            is_doorbell_alive = kind == "livenessProbe" and container["name"] == "doorbell"
            if is_doorbell_alive != (not checks[path]):
                behind = ", ".join(checks[path]) or "no check"
                print(f"container {container['name']}: {kind} asks {path}, behind which is {behind}")
                bad += 1
    if not looked_at:
        sys.exit("there is no probe")
    sys.exit(1 if bad else 0)


main()
