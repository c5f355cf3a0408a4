"""How results are written: beside what they depend on."""

import json
from pathlib import Path

import msgspec

from bench.harness.machine import this_machine


def record(path: Path, result: object) -> None:
    """As JSON: `result`, and `madeWith` the day, the machine, Python and the commit."""
    document = {"madeWith": msgspec.to_builtins(this_machine({})), "result": result}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
