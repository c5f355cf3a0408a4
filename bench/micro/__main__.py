"""`python -m bench.micro`: CPU time of each scheduling step of a pod, compared with its budget.

Arguments are passed to pytest, for example `-k decode`.
"""

import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


def main() -> int:
    """Run all; exit code 0 when all budgets were kept."""
    only_ours = ("-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:asyncio", "--benchmark-quiet")
    return pytest.main(["-c", str(FOLDER / "pytest.ini"), *only_ours, str(FOLDER), *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
