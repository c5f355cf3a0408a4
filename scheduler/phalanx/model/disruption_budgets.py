"""PodDisruptionBudgets: how many of which pods may be evicted now."""

from collections.abc import Mapping

from msgspec import Struct

from phalanx.model.pods import Term
from phalanx.model.selectors import labels_match


class DisruptionBudget(Struct, frozen=True, gc=False):
    """One budget. `selector` None means no pod, one without requirements every pod of the namespace.

    `allowed`: evictions that its status allows; 0 while nobody has counted its pods since its last change.
    `fault` says what is wrong with the selector: then it protects every pod of its namespace.
    """

    namespace: str
    name: str
    selector: Term | None = None
    allowed: int = 0
    fault: str = ""

    def protects(self, labels: Mapping[str, str]) -> bool:
        """Whether it is about a pod of its namespace with these labels."""
        if self.fault:
            return True
        return self.selector is not None and labels_match(labels, self.selector)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
