"""Whether tolerations cover a taint, by the rules of Kubernetes."""

from collections.abc import Iterable

from phalanx.model.nodes import Taint
from phalanx.model.pods import Toleration


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Whether one of them covers the taint."""
    return any(covers(toleration, taint) for toleration in tolerations)


def covers(toleration: Toleration, taint: Taint) -> bool:
    """An empty effect covers every effect; an empty key, which needs Exists, every key."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and bool(toleration.key) and toleration.value == taint.value
