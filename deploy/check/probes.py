#!/usr/bin/env python3
"""Checks which container the probes of manifests on standard input report.

    kubectl kustomize deploy/kubernetes/base | deploy/check/probes.py

The liveness probe of the doorbell container must use an endpoint without required checks, that of every
other container one with checks. Readiness probes must use one with checks. Paths without a route in
doorbell.toml are ignored.
"""
import sys
import tomllib

import yaml


def required(documents):
    """The required checks of the endpoint behind each path."""
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
                print(f"container {container['name']}: {kind} uses {path}, which requires {behind}")
                bad += 1
    if not looked_at:
        sys.exit("there is no probe")
    sys.exit(1 if bad else 0)


main()
