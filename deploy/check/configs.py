#!/usr/bin/env python3
"""Validates configuration files against the output of `doorbell config schema`, patterns included.

    doorbell config schema > schema.json; deploy/check/configs.py schema.json FILE...
"""
import json
import sys
import tomllib

import jsonschema

with open(sys.argv[1], encoding="utf-8") as file:
    schema = json.load(file)
jsonschema.Draft7Validator.check_schema(schema)
validator = jsonschema.Draft7Validator(schema)
bad = 0
for name in sys.argv[2:]:
    with open(name, "rb") as file:
        document = tomllib.load(file)
    for error in validator.iter_errors(document):
        bad += 1
        print(f"{name}: {'.'.join(str(part) for part in error.absolute_path)}: {error.message[:200]}")
    # An unknown key must fail.
    document["runtimex"] = {}
    if validator.is_valid(document):
        bad += 1
        print(f"{name}: an unknown key is accepted")
print(f"{len(sys.argv) - 2} files, {bad} problems")
sys.exit(1 if bad else 0)
