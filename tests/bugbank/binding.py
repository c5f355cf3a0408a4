"""Bugs of binding, gangs, stale caches, API errors and leadership (faults: 4.1 to 4.5)."""

from typing import Final

from tests.bugbank.bank import Drilled, Mutant

BINDING: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="a write after the Lease has run out",
        issues=("kubernetes #23731", "kubernetes #125761"),
        module="phalanx.kube.fence",
        edits={'    if not fence.may_write():\n        raise RequestNotSent("not leading any more")\n': ""},
        caught_by=Drilled("crashes", "node-lost-replace", start=1_600, every=2, most=60),
    ),
)
