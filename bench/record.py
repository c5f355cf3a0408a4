"""Writes results together with the machine and versions on which they depend."""

import json
from pathlib import Path

import msgspec

from bench.harness.machine import this_machine


def record(path: Path, result: object) -> None:
    """Write JSON with `result`, and in `madeWith` the date, machine, Python version and commit."""
    document = {"madeWith": msgspec.to_builtins(this_machine({})), "result": result}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
