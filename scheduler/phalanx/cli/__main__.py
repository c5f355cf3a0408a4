"""`python -m phalanx.cli`: the command line without an installed script."""

import sys

from phalanx.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
