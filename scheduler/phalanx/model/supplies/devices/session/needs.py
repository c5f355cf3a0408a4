"""What pods need of devices: pods whose claims ask for the same are interchangeable.

The claims of a template have a name for each pod. The scheduler compares what they ask for instead, and does
so for claims that only one pod names; if these have devices already, it compares from which nodes they can be
used. A need has the name of a resource, of which each pod uses one: a set of
devices for all its claims.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Final

from msgspec import Struct
from msgspec.msgpack import Encoder
from msgspec.structs import replace

from phalanx.model.gangs import Gang, MemberClaims
from phalanx.model.names import PodUid, QueueName, ShapeKey
from phalanx.model.pods import Pod, PodClaim, PodShape
from phalanx.model.reasons import Objection, Reason
from phalanx.model.settled_gangs import SettledGangs
from phalanx.model.supplies.devices.charges import Amounts, charges_of_names
from phalanx.model.supplies.devices.claims import Claim, ClaimSpec
from phalanx.model.supplies.devices.cluster import ClusterDevices, DeviceState
from phalanx.model.supplies.devices.extended_resources import ExtendedRequests
from phalanx.model.supplies.devices.limits import CLAIM_CONSUMERS_MAX
from phalanx.model.supplies.devices.matching import Matcher
from phalanx.model.supplies.devices.pod_claims import Unresolved, own_claims, renewed
from phalanx.model.supplies.devices.pools import NodeChoice
from phalanx.model.supplies.devices.session.claim_charges import ClaimCharges
from phalanx.model.supplies.devices.session.claim_users import ClaimUsers
from phalanx.model.supplies.devices.session.shared_choices import SharedUse, SharedUser

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
    renewed: tuple[tuple[str, str], ...] = ()
    """Those of them that are regarded as if they had no devices: of pods that do not exist yet."""
    allowed: tuple[NodeChoice, ...] = ()
    """The nodes from which claims can be used that have devices already and that only this pod names."""
    charged: tuple[Amounts, ...] = ()
    """What queues are charged for these claims."""
    users: "tuple[Users, ...]" = ()
    """Which pods of the gang share claims. Devices are chosen for all of them, and no other claim of the gang
    gets these devices. So gangs with the same claims have different needs."""
    extended: ExtendedRequests | None = None
    """Extended resources, for which a claim is made on nodes that do not offer them."""
    objection: Objection | None = None

    @property
    def name(self) -> str:
        """The same in every cycle."""
        return DEVICE_SLOT + blake2b(_encode(self), digest_size=_KEY_BYTES).hexdigest()


class Users(Struct, frozen=True, gc=False):
    """Pods of a gang that share the same claims: the shape of one of them, how many wait, what each needs."""

    shape: str
    pods: int
    need: Need


NOTHING: Final = Need()


class DeviceNeeds:
    """Adds the needs of pods to their shapes."""

    def __init__(
        self,
        devices: ClusterDevices,
        state: DeviceState,
        gangs: Collection[Gang],
        matcher: Matcher,
        settled: SettledGangs[Gang],
        now: int = 0,
        moved: frozenset[PodUid] = frozenset(),
    ) -> None:
        """`gangs` are all of the snapshot, and `now` is its time. `settled` is kept from session
        to session. `moved`: pods of gangs that are being moved."""
        self.users: Final = ClaimUsers(gangs)
        self._moved = moved
        self._settled = settled
        self._now = now
        self._devices = devices
        self._state = state
        self._matcher = matcher
        self._needs: dict[str, Need] = {}
        self._names: dict[Need, str] = {}
        self._shapes: dict[tuple[ShapeKey, str], PodShape] = {}
        self._problems: dict[ClaimSpec, Objection | None] = {}
        self._uses: dict[tuple[Users, ...], SharedUse] = {}
        self._of_lost: dict[str, MemberClaims] = {}
        """By need, what the lost members ask for whose placeholders have the need."""
        self._without_claims: set[ShapeKey] = set()
        """Shapes of placeholders that asked for devices in vain."""
        self.charges: Final = ClaimCharges(devices, state, gangs)
        """What queues are charged for claims."""

    def of(self, shape: PodShape) -> Need:
        """What pods of this shape need."""
        return self.of_name(shape.device_slot)

    def of_pod(self, pod: Pod) -> Need:
        """What a pod needs that may have its need from another session, such as that of the empty cluster."""
        return self._needs.get(pod.shape.device_slot) or self._need(pod)

    def of_name(self, name: str) -> Need:
        """The need with this name."""
        return self._needs.get(name, NOTHING)

    def use_of(self, need: Need) -> SharedUse:
        """The claims that pods of the gang share, and which of them wait."""
        return self._uses.get(need.users) or self._use(need.users, {})

    def know(self, need: Need, other: "DeviceNeeds") -> None:
        """Know the pods of a gang that is not in the snapshot, but in that of another session."""
        pods = {each: user.pod for each, user in zip(need.users, other.use_of(need).users, strict=True)}
        known = {each.need: pod for each, pod in pods.items() if pod is not None}
        self._needs.update({pod.shape.device_slot: other.of(pod.shape) for pod in known.values()})
        if need.users not in self._uses:
            self._uses[need.users] = self._use(need.users, known)

    def shared_claims(self, need: Need) -> dict[tuple[str, str], Claim]:
        """The claims that exist of those that a pod shares with others, by namespace and name."""
        found = {key: claim for key in need.shared if (claim := self._state.claim(*key)) is not None}
        return {key: renewed(claim) if key in need.renewed else claim for key, claim in found.items()}

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
        pods = [self._with_sole_claims(pod) for pod in gang.members]
        needs = {pod.uid: self._need(pod) for pod in pods if pod.device_claims}
        users = self._users([(pod, needs[pod.uid]) for pod in pods if pod.uid in needs])
        members = [
            self._charged(self._extended(pod, _beside(needs[pod.uid], users)), needs[pod.uid], gang.queue)
            if pod.uid in needs
            else pod
            for pod in pods
        ]
        return replace(gang, members=tuple(self._without_unready(gang, members)))

    def _with_sole_claims(self, pod: Pod) -> Pod:
        """The pod with its claims that no other pod names as such; the pod itself if it has none."""
        if not pod.is_waiting or all(each.is_own for each in pod.device_claims):
            return pod
        sole = [self._is_sole(each, pod.namespace) for each in pod.device_claims]
        if not any(sole):
            return pod
        marked = zip(pod.device_claims, sole, strict=True)
        return replace(pod, device_claims=tuple(replace(each, is_sole=only) for each, only in marked))

    def _is_sole(self, entry: PodClaim, namespace: str) -> bool:
        claim = None if entry.is_own else self._state.claim(namespace, entry.claim)
        if claim is None or (not entry.is_renewed and (claim.allocation is not None or claim.reserved_for)):
            return False
        return self.users.is_of_one_pod(namespace, entry.claim)

    def _users(self, pods: Sequence[tuple[Pod, Need]]) -> tuple[Users, ...]:
        """The pods of a gang that share claims, by what they need."""
        found: dict[Need, list[Pod]] = {}
        for pod, need in pods:
            if need.shared:
                found.setdefault(need, []).append(pod)
        users = tuple([Users(some[0].shape.key, len(some), need) for need, some in found.items()])
        if users and users not in self._uses:
            self._uses[users] = self._use(
                users, {need: self._extended(some[0], _beside(need, users)) for need, some in found.items()}
            )
        return users

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
        pod = self._with_sole_claims(pod)
        need = self._need(pod)
        return self._extended(pod, _beside(need, self._users([(pod, need)])))

    def with_claims(self, placeholder: Pod, claims: MemberClaims | None, queue: QueueName) -> Pod:
        """The placeholder of a member with these claims, with the need of the pod that replaces the member,
        and what the queue is charged for it: it may get more devices than the member had.

        A named claim that has devices keeps them. Without devices it counts if no other pod names it.
        """
        if claims is None:
            return placeholder
        specs, allowed = list(claims.own), []
        for name in claims.named:
            claim = self._state.claim(placeholder.namespace, name)
            if claim is not None and claim.allocation is not None:
                allowed.append(claim.allocation.nodes)
            elif claim is not None and not self.users.are_several(placeholder.namespace, name):
                specs.append(claim.spec)
        problems = (self._problem(spec) for spec in specs)
        need = Need(
            claims=tuple(specs),
            allowed=_in_one_order(allowed),
            extended=claims.extended,
            objection=next((each for each in problems if each is not None), None),
        )
        names = charges_of_names(placeholder.shape.requests, self._devices.classes) if claims.extended else ()
        made = self._charged(self._extended(replace(placeholder, charges=names), need), need, queue)
        self._of_lost[made.shape.device_slot] = claims
        return made

    def without_claims(self, placeholder: Pod) -> Pod:
        """The placeholder, which asks for no devices now."""
        key = ShapeKey(f"{placeholder.shape.key}@")
        self._without_claims.add(key)
        return replace(placeholder, shape=replace(placeholder.shape, key=key, device_slot=""))

    def claims_of_lost(self, pod: Pod) -> MemberClaims | None:
        """What a lost member asks for; None for pods that are no placeholder of such a member."""
        return self._of_lost.get(pod.shape.device_slot) if pod.is_placeholder else None

    def lacks_devices(self, pod: Pod) -> bool:
        """Whether the pod is the placeholder of a lost member whose claims have no devices."""
        return pod.shape.key in self._without_claims

    def _use(self, users: tuple[Users, ...], pods: Mapping[Need, Pod]) -> SharedUse:
        """The claims that exist of these users."""
        found = {key: claim for each in users for key, claim in self.shared_claims(each.need).items()}
        place = {key: number for number, key in enumerate(found)}
        return SharedUse(
            tuple(found.values()),
            tuple(
                SharedUser(
                    each.pods,
                    pods.get(each.need),
                    tuple(place[key] for key in each.need.shared if key in place),
                )
                for each in users
            ),
        )

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

    def _charged(self, pod: Pod, need: Need, queue: QueueName) -> Pod:
        """The pod with what its queue is to be charged for its claims if it waits."""
        if not (need.claims or need.shared or need.charged):
            return pod
        slot = pod.shape.device_slot
        charges = self.charges.of(slot, queue, need.claims, need.shared, need.charged, need.renewed)
        names = [each for each in pod.charges if not each.claim]
        return replace(pod, charges=(*names, *charges)) if charges or pod.charges else pod

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
        return None

    def _too_many(self, need: Need, waiting: Sequence[Pod]) -> Objection | None:
        """Too many pods for the status of a shared claim. It may name pods that wait: see leftover claims."""
        use = self.use_of(need)
        for number, claim in enumerate(use.claims):
            others = set(claim.reserved_for).difference(pod.uid for pod in waiting)
            count = len(others) + use.pods_of(number)
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
        is_for_extended = any(each.is_for_extended for each in pod.device_claims)
        if is_for_extended and self._state.extended_claim(pod.uid) is not None:
            return Need(objection=_not_ready(f"{self._state.extended_claim(pod.uid)}: {_EARLIER}"))
        others = [claim for claim in claims if claim.name not in own]
        fixed = [
            each
            for each in others
            if each.allocation is not None and self.users.is_of_one_pod(each.namespace, each.name)
        ]
        next_ones = {each.claim for each in pod.device_claims if each.is_renewed}
        keys = tuple((claim.namespace, claim.name) for claim in others if claim not in fixed)
        return Need(
            claims=tuple(claim.spec for claim in claims if claim.name in own),
            shared=keys,
            renewed=tuple(key for key in keys if key[1] in next_ones),
            allowed=_in_one_order(each.allocation.nodes for each in fixed if each.allocation is not None),
            charged=self.charges.of_allocated(fixed),
            extended=pod.extended if is_for_extended else None,
        )

    def _claim_objection(self, claim: Claim, *, is_own: bool) -> Objection | None:
        """Why a claim cannot be used, whatever is free."""
        if claim.allocation is None:
            return self._problem(claim.spec)
        if is_own:
            return _not_ready(_EARLIER)
        if claim.reserved_for and self._moved.issuperset(claim.reserved_for):
            return _not_ready(_EARLIER)
        if claim.unbound:
            until = claim.ready_by if claim.ready_by > self._now else None
            return replace(_not_ready(claim.unbound), until=until)
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


def _beside(need: Need, users: tuple[Users, ...]) -> Need:
    """The need of a pod in a gang whose pods share claims; one that needs nothing is not concerned."""
    concerns = need.claims or need.shared or need.allowed or need.extended
    return replace(need, users=users) if users and concerns else need


def _in_one_order(choices: Iterable[NodeChoice]) -> tuple[NodeChoice, ...]:
    """Each of these once, in the same order for all pods."""
    return tuple(sorted({*choices}, key=_encode))


def _is_tried(pod: Pod) -> bool:
    return pod.is_waiting and not pod.gated


def _not_ready(text: str) -> Objection:
    return Objection(Reason.RESOURCE_CLAIM_NOT_READY, text, "Wait until the claim is ready, or create it")
