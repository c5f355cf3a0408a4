"""`python -m tests.cluster.prepare`: builds what tests on real kubelets need, or says in one line why not.

The exit code is 2 if something cannot be built although everything for it is there.
"""

import sys

from phalanx_controlplane.nodes.programs import ProgramsMissing

from deploy.image.storage import CannotBuild
from tests.cluster.availability import Unavailable, prepare
from tests.program_builds import MISSING, report


def main() -> int:
    """Build kubelet, containerd and the image."""
    try:
        prepare(report)
    except Unavailable as reason:
        report(f"tests on real kubelets are skipped: {reason}")
    except (ProgramsMissing, CannotBuild) as failed:
        report(str(failed))
        return MISSING
    return 0


if __name__ == "__main__":
    sys.exit(main())
