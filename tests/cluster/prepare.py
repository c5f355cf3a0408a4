"""`python -m tests.cluster.prepare`: builds what tests on real kubelets need, or says in one line why not.

The exit code is 2 if something cannot be built.
"""

import sys

from phalanx_controlplane.nodes import programs
from phalanx_controlplane.nodes.programs import ProgramsMissing

from deploy.image import build


def main() -> int:
    """Build kubelet, containerd and the image."""
    if reason := programs.missing() or build.missing():
        _report(f"tests on real kubelets are skipped: {reason}")
        return 0
    try:
        programs.find_or_build(_report)
        build.build(_report, tag="0.1.0")
    except (ProgramsMissing, build.CannotBuild) as failed:
        _report(str(failed))
        return 2
    return 0


def _report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
