#!/usr/bin/env python3
"""Keeps the descriptions of the chart's values in one place, values.schema.json.

    deploy/check/values.py           compares
    deploy/check/values.py --write   writes the comments of values.yaml and the table of README.md

Every value must have a description, a default in values.yaml, and a schema without unknown fields.
The version of the chart, and that of the image in manifests and the book, is that of the workspace.
"""
import json
import pathlib
import re
import sys
import textwrap

import yaml

CHART = pathlib.Path(__file__).resolve().parent.parent / "helm/doorbell"
HEAD = "# Generated comments: `deploy/check/values.py --write` takes them from values.schema.json.\n"
MARK = "<!-- Generated: `deploy/check/values.py --write` writes the rest of this page. -->\n"


class Plain(yaml.SafeDumper):
    """Writes lists indented, long texts as blocks, and quotes as double ones."""

    def increase_indent(self, flow=False, indentless=False):
        return super().increase_indent(flow, False)


def text(dumper, value):
    style = "|" if "\n" in value else None
    if style is None and yaml.safe_dump(value).startswith("'"):
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


Plain.add_representer(str, text)


def dump(value):
    return yaml.dump(value, Dumper=Plain, sort_keys=False, width=1000).removesuffix("...\n")


def commented(key, schema, value, depth):
    """The lines of one value, with its description above."""
    indent = "  " * depth
    lines = textwrap.wrap(schema["description"], 100 - len(indent) - 2, break_on_hyphens=False, break_long_words=False)
    for example in schema.get("examples", []):
        lines += ["Example:", *(f"  {line}" for line in dump({key: example}).splitlines())]
    out = [f"{indent}# {line}" for line in lines]
    if "properties" in schema and schema["type"] == "object":
        out.append(f"{indent}{key}:")
        for name, part in schema["properties"].items():
            out += commented(name, part, value[name], depth + 1)
    else:
        out += [(indent + line).rstrip() for line in dump({key: value}).splitlines()]
    return out


def values_yaml(schema, values):
    blocks = ["\n".join(commented(key, part, values[key], 0)) for key, part in schema["properties"].items()]
    return HEAD + "\n" + "\n\n".join(blocks) + "\n"


def rows(schema, values, prefix=""):
    """(name, default, description) of every value; the fields of list items have no default."""
    for key, part in schema["properties"].items():
        name, value = prefix + key, None if values is None else values[key]
        if "properties" in part:
            yield from rows(part, value, f"{name}.")
            continue
        yield name, None if values is None else value, part["description"]
        if "properties" in part.get("items", {}):
            yield from rows(part["items"], None, f"{name}[].")


def cell(value):
    shown = json.dumps(value)
    return "see `values.yaml`" if len(shown) > 40 else f"`{shown}`"


def table(schema, values):
    lines = ["| Value | Default | Description |", "|---|---|---|"]
    for name, value, description in rows(schema, values):
        default = "" if "[]" in name else cell(value)
        lines.append(f"| `{name}` | {default} | {description.replace('|', chr(92) + '|')} |")
    return "\n".join(lines) + "\n"


def mistakes(schema, values, prefix=""):
    if schema.get("additionalProperties") is not False:
        yield f"{prefix or 'the schema'}: accepts unknown values"
    listed = set(schema["properties"])
    if values is not None:
        yield from (f"{prefix}{key}: no default in values.yaml" for key in sorted(listed - set(values)))
        yield from (f"{prefix}{key}: not in the schema" for key in sorted(set(values) - listed))
    for key, part in schema["properties"].items():
        if not part.get("description", "").endswith("."):
            yield f"{prefix}{key}: no description, or one without a full stop"
        if "properties" in part:
            yield from mistakes(part, (values or {}).get(key, {}), f"{prefix}{key}.")
        if "properties" in part.get("items", {}):
            yield from mistakes(part["items"], None, f"{prefix}{key}[].")


def versions():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    workspace = (CHART.parent.parent.parent / "Cargo.toml").read_text(encoding="utf-8")
    version = re.search(r'^\[workspace\.package\]\n(?:.+\n)*?version = "(.+)"', workspace, re.M)[1]
    for field in ("version", "appVersion"):
        if chart[field] != version:
            yield f"Chart.yaml: {field} is {chart[field]}, and the workspace has {version}"
    deploy = CHART.parent.parent
    for file in sorted([*deploy.rglob("*.yaml"), *deploy.rglob("*.md")]):
        for tag in re.findall(r"(?:\bdoorbell:|\bnewTag: )(\d+\.\d+\.\d+)", file.read_text(encoding="utf-8")):
            if tag != version:
                yield f"{file.relative_to(deploy)}: the image has version {tag}, and the workspace has {version}"


def main():
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    bad = [*mistakes(schema, values), *versions()]
    if bad:
        sys.exit("\n".join(bad))
    readme = (CHART / "README.md").read_text(encoding="utf-8").partition(MARK)[0]
    written = {"values.yaml": values_yaml(schema, values), "README.md": readme + MARK + "\n" + table(schema, values)}
    for name, content in written.items():
        path = CHART / name
        if "--write" in sys.argv:
            path.write_text(content, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != content:
            bad.append(f"{path.name} differs from values.schema.json: run deploy/check/values.py --write")
    if yaml.safe_load(written["values.yaml"]) != values:
        bad.append("the comments changed a value")
    print(f"{len(list(rows(schema, values)))} values, {len(bad)} problems")
    sys.exit("\n".join(bad) if bad else 0)


if __name__ == "__main__":
    main()
