#!/usr/bin/env python3
"""Parses every YAML block of the operators' book. Fewer than 5 blocks are an error: the search is broken.

    deploy/check/book.py deploy/book/src
"""
import pathlib
import re
import sys

import yaml

count = 0
bad = 0
for page in sorted(pathlib.Path(sys.argv[1]).rglob("*.md")):
    text = page.read_text(encoding="utf-8")
    for block in re.finditer(r"^( *)```yaml[^\n]*\n(.*?)^ *```$", text, re.M | re.S):
        count += 1
        lines = [line[len(block[1]):] for line in block[2].splitlines()]
        try:
            list(yaml.safe_load_all("\n".join(lines)))
        except yaml.YAMLError as error:
            bad += 1
            print(f"{page}: line {text[:block.start()].count(chr(10)) + 1}: {error}")
print(f"{count} YAML blocks, {bad} problems")
sys.exit(1 if bad or count < 5 else 0)
