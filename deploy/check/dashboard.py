#!/usr/bin/env python3
"""Checks the dashboard and the rules: syntax, no overlapping panels, and only series that exist.

    deploy/check/dashboard.py [METRICS]       METRICS: a file with /metrics of a running doorbell
"""
import json
import pathlib
import re
import sys

import yaml

DEPLOY = pathlib.Path(__file__).resolve().parent.parent
problems = []


def series(expression):
    names = re.findall(r"\b(?:doorbell|process)_[a-z0-9_]+", expression)
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in names}


known = {
    line
    for line in (DEPLOY / "prometheus/metrics.txt").read_text().splitlines()
    if line and not line.startswith("#")
}
used = set()

dashboard = json.loads((DEPLOY / "grafana/doorbell.json").read_text())
taken = {}
for panel in dashboard["panels"]:
    title, place = panel["title"], panel["gridPos"]
    if place["x"] + place["w"] > 24:
        problems.append(f"{title}: wider than the dashboard")
    for x in range(place["x"], place["x"] + place["w"]):
        for y in range(place["y"], place["y"] + place["h"]):
            other = taken.setdefault((x, y), title)
            if other != title:
                problems.append(f"{title}: overlaps {other}")
                break
    if panel["type"] != "row" and not panel["targets"]:
        problems.append(f"{title}: has no query")
    for target in panel.get("targets", []):
        used |= series(target["expr"])
ids = [panel["id"] for panel in dashboard["panels"]]
if len(ids) != len(set(ids)):
    problems.append("two panels have the same id")
for variable in dashboard["templating"]["list"]:
    used |= series(str(variable.get("definition", "")))

rules = yaml.safe_load((DEPLOY / "prometheus/rules.yml").read_text())
for group in rules["groups"]:
    for rule in group["rules"]:
        used |= series(rule["expr"])

problems += [f"{name} is queried and is not in metrics.txt" for name in sorted(used - known)]
problems += [f"{name} is in metrics.txt and is not queried" for name in sorted(known - used)]
if len(sys.argv) > 1:
    text = pathlib.Path(sys.argv[1]).read_text()
    exposed = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")}
    exposed |= {f"{name}_total" for name in exposed}
    problems += [f"{name} is missing in /metrics" for name in sorted(used - exposed)]
for problem in sorted(set(problems)):
    print(problem)
print(f"{len(dashboard['panels'])} panels, {len(used)} series, {len(set(problems))} problems")
sys.exit(1 if problems else 0)
