"""`python -m tests.cluster.prepare`: builds what tests on real kubelets need, or says in one line why not.

The exit code is 2 if something cannot be built although everything for it is there.
"""

import sys

from phalanx_controlplane.nodes.programs import ProgramsMissing

from deploy.image.storage import CannotBuild
from tests.cluster.availability import Unavailable, prepare


def main() -> int:
    """Build kubelet, containerd and the image."""
    try:
        prepare(_report)
    except Unavailable as reason:
        _report(f"tests on real kubelets are skipped: {reason}")
    except (ProgramsMissing, CannotBuild) as failed:
        _report(str(failed))
        return 2
    return 0


def _report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
