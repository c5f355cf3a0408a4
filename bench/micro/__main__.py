"""`python -m bench.micro`: CPU time of each step of a pod's way, and whether it is within its budget.

Arguments go to pytest: `-k decode`, say.
"""

import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


def main() -> int:
    """Run all; the exit code says whether all budgets were kept."""
    only_ours = ("-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:asyncio", "--benchmark-quiet")
    return pytest.main(["-c", str(FOLDER / "pytest.ini"), *only_ours, str(FOLDER), *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
