"""PodDisruptionBudgets as the eviction subresource applies them."""

from phalanx_simulator.embedded.apiserver.errors import ApiError, Cause, Subject, forbidden, too_many_requests
from phalanx_simulator.embedded.apiserver.kinds import BUDGETS
from phalanx_simulator.embedded.apiserver.objects import is_deleting, is_ready, set_condition
from phalanx_simulator.embedded.apiserver.selectors import label_selector
from phalanx_simulator.embedded.store import Object, Store

_SUBJECT = Subject("poddisruptionbudget", "PodDisruptionBudget", "policy")
_SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
_VIOLATION = "Cannot evict pod as it would violate the pod's disruption budget."
_PROCESSING_RETRY_S = 10


def may_ignore_budgets(pod: Object) -> bool:
    """Whether no budget protects a pod in this state."""
    return is_deleting(pod) or pod["status"].get("phase") in ("Pending", "Succeeded", "Failed")


def budget_of(pod: Object, store: Store) -> Object | None:
    """The budget that selects the pod. Raises ApiError 500 where there are several."""
    entries = store.entries(BUDGETS.resource, pod["metadata"]["namespace"])
    found = [entry.data for entry in entries if label_selector(entry.data["spec"].get("selector"))(pod)]
    if len(found) > 1:
        raise ApiError(500, "", _SEVERAL)
    return found[0] if found else None


def may_ignore(budget: Object, pod: Object) -> bool:
    """Whether the pod is unhealthy in a way that costs the budget nothing."""
    if is_ready(pod):
        return False
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget["status"]
    desired: int = status.get("desiredHealthy", 0)
    return desired > 0 and bool(status.get("currentHealthy", 0) >= desired)


def with_disruption(budget: Object, pod: str, *, now: str) -> Object:
    """The budget's status after one more disruption.

    Raises ApiError 429 where it allows none.
    """
    metadata, status = budget["metadata"], budget["status"]
    name, allowed = metadata["name"], status.get("disruptionsAllowed", 0)
    if status.get("observedGeneration", 0) < metadata["generation"]:
        why = f"The disruption budget {name} is still being processed by the server."
        raise _exhausted(why, retry_after_s=_PROCESSING_RETRY_S)
    if allowed < 0:
        raise forbidden(_SUBJECT, name, "pdb disruptions allowed is negative")
    if allowed == 0:
        needs, has = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        raise _exhausted(f"The disruption budget {name} needs {needs} healthy pods and has {has} currently")
    disrupted = {**status.get("disruptedPods", {}), pod: now}
    left = {**status, "disruptionsAllowed": allowed - 1, "disruptedPods": disrupted}
    return left if allowed > 1 else with_allowed_condition(left, metadata["generation"], now=now)


def with_allowed_condition(status: Object, generation: int, *, now: str) -> Object:
    """The status with its DisruptionAllowed condition."""
    enough = status["disruptionsAllowed"] > 0
    condition = {
        "type": "DisruptionAllowed",
        "status": "True" if enough else "False",
        "observedGeneration": generation,
        "lastTransitionTime": now,
        "reason": "SufficientPods" if enough else "InsufficientPods",
        "message": "",
    }
    return {**status, "conditions": set_condition(status.get("conditions", []), condition)}


def _exhausted(why: str, *, retry_after_s: int = 0) -> ApiError:
    return too_many_requests(_VIOLATION, retry_after_s=retry_after_s, cause=Cause("DisruptionBudget", why))
