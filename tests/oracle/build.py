"""`python -m tests.oracle.build`: builds the program and records kube-scheduler's tests.

It says in one line if it cannot.

The exit code is 2 if it is missing in CI, or if Go cannot build it.
"""

import sys

from phalanx_controlplane import go_modules
from phalanx_controlplane.programs import ProgramMissing

from tests.oracle.plugins import PROGRAM, is_ci
from tests.oracle.tables.recording import recorded


def main() -> int:
    """Build, unless it is built."""
    try:
        PROGRAM.build(_report)
        recorded(_report)
    except ProgramMissing as missing:
        if go_modules.can_build() or is_ci():
            _report(str(missing))
            return 2
        _report("Go is not installed: comparisons with kube-scheduler's plugins are skipped")
    return 0


def _report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
