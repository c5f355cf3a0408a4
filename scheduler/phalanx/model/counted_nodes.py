"""Which nodes a topology spread constraint counts, where pods of the gang may use other nodes too."""

from msgspec import Struct

from phalanx.model.pods import Term, Toleration


class CountedNodes(Struct, frozen=True):
    """They have these keys, and the selector, the affinity and the tolerations of the pod allow them."""

    keys: tuple[str, ...]
    node_selector: tuple[tuple[str, str], ...] = ()
    required_affinity: tuple[Term, ...] = ()
    """Empty for none."""
    tolerations: tuple[Toleration, ...] | None = None
    """None if taints do not matter."""
