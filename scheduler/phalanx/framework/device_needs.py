"""What pods need of devices: pods whose claims ask for the same are interchangeable.

The claims of a template have a name for each pod. The scheduler compares what they ask for instead. A need
has the name of a resource, of which each pod uses one: a set of devices for all its claims.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from msgspec import Struct
from msgspec.msgpack import Encoder
from msgspec.structs import replace

from phalanx.framework.settled_gangs import SettledGangs
from phalanx.framework.shared_choices import SharedUse
from phalanx.model.devices.claims import Claim, ClaimSpec
from phalanx.model.devices.cluster import ClusterDevices, DeviceState
from phalanx.model.devices.limits import CLAIM_CONSUMERS_MAX
from phalanx.model.devices.matching import Matcher
from phalanx.model.devices.pod_claims import Unresolved, own_claims
from phalanx.model.extended_resources import ExtendedRequests
from phalanx.model.gangs import Gang
from phalanx.model.names import ShapeKey
from phalanx.model.pods import Pod, PodShape
from phalanx.model.reasons import Objection, Reason

DEVICE_SLOT: Final = "devices for claims "
"""The prefix of the resources of which each pod with claims uses one."""

_EARLIER: Final = "the devices of an earlier attempt are not given back yet"
_KEY_BYTES: Final = 8
_encode: Final = Encoder(order="sorted").encode


class Need(Struct, frozen=True, gc=False):
    """The claims of a pod that need an allocation, in order, or why it cannot have any.

    `shared`: the claims that other pods may use too, allocated or not, as namespace and name. A pod that has
    a node needs nothing more: its claims are allocated.
    """

    claims: tuple[ClaimSpec, ...] = ()
    shared: tuple[tuple[str, str], ...] = ()
    users: tuple[str, int] = ("", 0)
    """Which pods of a gang share claims: the shape of one of them, and how many wait. Devices are chosen for
    them, so gangs with the same claims have different needs."""
    extended: ExtendedRequests | None = None
    """Extended resources, for which a claim is made on nodes that do not offer them."""
    objection: Objection | None = None

    @property
    def name(self) -> str:
        """The same in every cycle."""
        return DEVICE_SLOT + blake2b(_encode(self), digest_size=_KEY_BYTES).hexdigest()


NOTHING: Final = Need()


class DeviceNeeds:
    """Adds the needs of pods to their shapes."""

    def __init__(
        self, devices: ClusterDevices, state: DeviceState, matcher: Matcher, settled: SettledGangs
    ) -> None:
        """`settled` is kept from session to session."""
        self._settled = settled
        self._devices = devices
        self._state = state
        self._matcher = matcher
        self._needs: dict[str, Need] = {}
        self._names: dict[Need, str] = {}
        self._shapes: dict[tuple[ShapeKey, str], PodShape] = {}
        self._problems: dict[ClaimSpec, Objection | None] = {}
        self._uses: dict[Need, SharedUse] = {}

    def of(self, shape: PodShape) -> Need:
        """What pods of this shape need."""
        return self._needs.get(shape.device_slot, NOTHING)

    def use_of(self, need: Need) -> SharedUse:
        """The claims that pods with this need share, and how many wait; none if it is of another session."""
        return self._uses.get(need) or self._use(need, ())

    def with_needs(self, gang: Gang) -> Gang:
        """The gang with the needs of its members in their shapes; the gang itself if none has claims."""
        if not gang.claims_devices:
            return gang
        if any(pod.is_waiting for pod in gang.members):
            return self._with_needs(gang)
        known = self._settled.get(gang)
        if known is None:
            known = self._with_needs(gang)
            self._settled.keep(gang, known)
        return known

    def _with_needs(self, gang: Gang) -> Gang:
        needs = {pod.uid: self._need(pod) for pod in gang.members if pod.device_claims}
        users: dict[Need, list[Pod]] = {}
        for pod in gang.members:
            if pod.uid in needs:
                users.setdefault(needs[pod.uid], []).append(pod)
        used = {need: self._used_by(need, pods) for need, pods in users.items()}
        members = [
            self._extended(pod, used[needs[pod.uid]]) if pod.uid in needs else pod for pod in gang.members
        ]
        return replace(gang, members=tuple(self._without_unready(gang, members)))

    def _without_unready(self, gang: Gang, members: list[Pod]) -> list[Pod]:
        """The members, of which those whose claims are not ready wait like gated ones if the others are
        enough."""
        unready = {pod.uid for pod in members if _is_tried(pod) and self._is_unready(pod)}
        tried = [pod for pod in members if pod.counts_for_gang or (_is_tried(pod) and pod.uid not in unready)]
        has_some = any(map(_is_tried, tried))
        if not unready or not has_some or not (gang.started or gang.minimum.is_reached(tried)):
            return members
        return [replace(pod, gated=True) if pod.uid in unready else pod for pod in members]

    def _is_unready(self, pod: Pod) -> bool:
        found = self.of(pod.shape).objection
        return found is not None and found.reason is Reason.RESOURCE_CLAIM_NOT_READY

    def pod_with_need(self, pod: Pod) -> Pod:
        """The pod with its need in its shape; the pod itself if it has no claims."""
        if not pod.device_claims or pod.shape.device_slot:
            return pod
        return self._extended(pod, self._used_by(self._need(pod), [pod]))

    def _used_by(self, need: Need, users: Sequence[Pod]) -> Need:
        """The need of all pods of a gang that share the same claims."""
        if not need.shared:
            return need
        need = replace(need, users=(users[0].shape.key, len(users)))
        if need not in self._uses:
            self._uses[need] = self._use(need, [self._extended(pod, need) for pod in users])
        return need

    def _use(self, need: Need, users: Sequence[Pod]) -> SharedUse:
        found = [self._state.claim(*key) for key in need.shared]
        claims = tuple(claim for claim in found if claim is not None)
        return SharedUse(claims, len(users), users[0] if users else None)

    def _extended(self, pod: Pod, need: Need) -> Pod:
        name = self._names.get(need)
        if name is None:
            name = self._names[need] = need.name
            self._needs[name] = need
        key = (pod.shape.key, name)
        shape = self._shapes.get(key)
        if shape is None:
            extended = ShapeKey(f"{pod.shape.key}@{name.removeprefix(DEVICE_SLOT)}")
            shape = self._shapes[key] = replace(pod.shape, key=extended, device_slot=name)
        return replace(pod, shape=shape)

    def objection(self, gang: Gang) -> Objection | None:
        """Why the waiting members cannot have devices, whatever is free."""
        waiting = [pod for pod in gang.members if _is_tried(pod) and pod.shape.device_slot]
        needs: dict[str, Pod] = {}
        for pod in waiting:
            needs.setdefault(pod.shape.device_slot, pod)
        for name, pod in needs.items():
            found = self._needs[name].objection or self._too_many(self._needs[name], waiting)
            if found is not None:
                return replace(found, message=f"pod {pod.name}: {found.message}")
        if len(needs) > 1 and any(self._needs[name].shared for name in needs):
            text = (
                "spec.resourceClaims: claims that differ beside claims that are shared are not supported yet"
            )
            return Objection(Reason.UNSUPPORTED_FIELD, f"pod {waiting[0].name}: {text}")
        return None

    def _too_many(self, need: Need, waiting: Sequence[Pod]) -> Objection | None:
        """Too many pods for the status of a shared claim. It may name pods that wait: see leftover claims."""
        use = self.use_of(need)
        for claim in use.claims:
            count = len(set(claim.reserved_for).difference(pod.uid for pod in waiting)) + use.pods
            if count > CLAIM_CONSUMERS_MAX:
                text = f"{claim}: {count} pods would use it; the limit of the API is {CLAIM_CONSUMERS_MAX}"
                return Objection(Reason.INVALID_OBJECT, text, "Use more claims, or resourceClaimTemplateName")
        return None

    def _need(self, pod: Pod) -> Need:
        if not pod.is_waiting:
            return NOTHING
        if not self._devices.are_listed:
            return Need(objection=_not_ready("spec.resourceClaims: claims and devices are not listed yet"))
        claims = self._state.claims_of(pod.device_claims, namespace=pod.namespace, pod_uid=pod.uid)
        if isinstance(claims, Unresolved):
            return Need(objection=_not_ready(claims.text))
        names, own = [each.claim for each in pod.device_claims], own_claims(pod.device_claims)
        for claim in claims:
            found = self._claim_objection(claim, is_own=claim.name in own)
            if found is not None:
                text = f"spec.resourceClaims[{names.index(claim.name)}]: {claim}: {found.message}"
                return Need(objection=replace(found, message=text))
        is_special = any(each.is_special for each in pod.device_claims)
        if is_special and self._state.special(pod.uid) is not None:
            return Need(objection=_not_ready(f"{self._state.special(pod.uid)}: {_EARLIER}"))
        return Need(
            claims=tuple(claim.spec for claim in claims if claim.name in own),
            shared=tuple((claim.namespace, claim.name) for claim in claims if claim.name not in own),
            extended=pod.extended if is_special else None,
        )

    def _claim_objection(self, claim: Claim, *, is_own: bool) -> Objection | None:
        """Why a claim cannot be used, whatever is free."""
        if claim.allocation is None:
            return self._problem(claim.spec)
        if is_own:
            return _not_ready(_EARLIER)
        if claim.unbound:
            return _not_ready(claim.unbound)
        return None

    def _problem(self, spec: ClaimSpec) -> Objection | None:
        """The first error of a claim or of its classes, or the first field that is not supported."""
        if spec not in self._problems:
            wrong = self._matcher.problems(spec, self._devices.classes)
            correct, without = "Correct the named field", "Ask for devices without this field"
            found = [Objection(Reason.INVALID_OBJECT, each, correct) for each in wrong]
            found += [Objection(Reason.UNSUPPORTED_FIELD, each, without) for each in spec.unsupported]
            self._problems[spec] = found[0] if found else None
        return self._problems[spec]


def _is_tried(pod: Pod) -> bool:
    return pod.is_waiting and not pod.gated


def _not_ready(text: str) -> Objection:
    return Objection(Reason.RESOURCE_CLAIM_NOT_READY, text, "Wait until the claim is ready, or create it")
