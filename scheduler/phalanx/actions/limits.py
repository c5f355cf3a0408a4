"""Limits of what the actions do in one cycle that several of them share, each with its reason.

A limit with one user stands beside it. Limits that other packages share are in `phalanx/limits.py`; delays
before another try are in `phalanx/framework/retry.py`.
"""

from typing import Final

SHOWN_VICTIMS: Final = 5
"""Victims that a verdict names."""

SHOWN_MEMBERS: Final = 8
"""Members of one shape that a verdict names."""

EVIDENCE_BATCHES_MAX: Final = 32
"""Shapes of pods for which a verdict says which nodes are excluded. Each looks at all nodes."""

EVIDENCE_LINES_MAX: Final = 12
"""Different findings about nodes in one verdict. More would hide the others."""

ADVISED_NODES_MAX: Final = 3
"""Nodes on which an advice names the amounts to free; with more, the number of pods to fit is named."""

CROWDED_DUE_GANGS: Final = 64
"""New gangs of a queue, or such that a change of the cluster could help, beyond which one cycle looks at some
of them only: each takes up to 10 ms if it does not start."""
