"""Runs programs in other processes with another hash seed, so that sets of strings have another order."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def printed(*arguments: str, hash_seed: str, given: bytes = b"") -> bytes:
    """Return what `python ARGUMENTS` prints; raises CalledProcessError if it fails."""
    return subprocess.run(
        [sys.executable, *arguments],
        input=given,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout
