"""Programs run in processes of their own, where sets and dictionaries of strings have another order."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def printed(*arguments: str, hash_seed: str, given: bytes = b"") -> bytes:
    """What `python ARGUMENTS` prints; raises CalledProcessError where it fails."""
    return subprocess.run(
        [sys.executable, *arguments],
        input=given,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout
