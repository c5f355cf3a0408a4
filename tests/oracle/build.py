"""`python -m tests.oracle.build`: builds the program and records kube-scheduler's tests.

It says in one line if it cannot.

The exit code is 2 if it is missing in CI, or if Go cannot build it.
"""

import sys

from phalanx_controlplane import go_modules
from phalanx_controlplane.programs import ProgramMissing

from tests.oracle.plugins import PROGRAM, is_ci
from tests.oracle.tables.recording import recorded
from tests.program_builds import MISSING, report


def main() -> int:
    """Build, unless it is built."""
    try:
        PROGRAM.build(report)
        recorded(report)
    except ProgramMissing as missing:
        if go_modules.can_build() or is_ci():
            report(str(missing))
            return MISSING
        report("Go is not installed: comparisons with kube-scheduler's plugins are skipped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
