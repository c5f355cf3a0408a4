"""What pods need of devices: pods whose claims ask for the same are interchangeable.

The claims of a template have a name for each pod. The scheduler compares what they ask for instead. A need
has the name of a resource, of which each pod uses one: a set of devices for all its claims.
"""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Final

from msgspec import Struct
from msgspec.msgpack import Encoder
from msgspec.structs import replace

from phalanx.model.devices.claims import ClaimSpec
from phalanx.model.devices.cluster import ClusterDevices, DeviceState
from phalanx.model.devices.matching import Matcher
from phalanx.model.devices.pod_claims import Unresolved
from phalanx.model.gangs import Gang
from phalanx.model.names import ShapeKey
from phalanx.model.pods import Pod, PodShape
from phalanx.model.reasons import Objection, Reason

DEVICE_SLOT: Final = "devices for claims "
"""The prefix of the resources of which each pod with claims uses one."""

_KEY_BYTES: Final = 8
_encode: Final = Encoder(order="sorted").encode


class Need(Struct, frozen=True, gc=False):
    """The claims of a pod that need an allocation, in order, or why it cannot have any.

    A pod that has a node needs nothing more: its claims are allocated.
    """

    claims: tuple[ClaimSpec, ...] = ()
    objection: Objection | None = None

    @property
    def name(self) -> str:
        """The same in every cycle."""
        return DEVICE_SLOT + blake2b(_encode(self), digest_size=_KEY_BYTES).hexdigest()


NOTHING: Final = Need()


class DeviceNeeds:
    """Adds the needs of pods to their shapes."""

    def __init__(self, devices: ClusterDevices, state: DeviceState, matcher: Matcher) -> None:
        self._devices = devices
        self._state = state
        self._matcher = matcher
        self._needs: dict[str, Need] = {}
        self._names: dict[Need, str] = {}
        self._shapes: dict[tuple[ShapeKey, str], PodShape] = {}
        self._problems: dict[ClaimSpec, Objection | None] = {}

    def of(self, shape: PodShape) -> Need:
        """What pods of this shape need."""
        return self._needs.get(shape.device_slot, NOTHING)

    def with_needs(self, gang: Gang) -> Gang:
        """The gang with the needs of its members in their shapes; the gang itself if none has claims."""
        if not any(pod.device_claims for pod in gang.members):
            return gang
        return replace(gang, members=tuple([self.pod_with_need(pod) for pod in gang.members]))

    def pod_with_need(self, pod: Pod) -> Pod:
        """The pod with its need in its shape; the pod itself if it has no claims."""
        if not pod.device_claims or pod.shape.device_slot:
            return pod
        need = self._need(pod)
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
        waiting = [pod for pod in gang.members if pod.is_waiting and pod.shape.device_slot]
        needs = {pod.shape.device_slot: pod for pod in reversed(waiting)}
        for name, pod in needs.items():
            found = self._needs[name].objection
            if found is not None:
                return replace(found, message=f"pod {pod.name}: {found.message}")
        if len(needs) > 1:
            text = "spec.resourceClaims: members that ask for different devices are not supported yet"
            return Objection(Reason.UNSUPPORTED_FIELD, f"pod {waiting[0].name}: {text}")
        return None

    def _need(self, pod: Pod) -> Need:
        if not pod.is_waiting:
            return NOTHING
        objection = next(_shared(pod), None)
        if objection is not None:
            return Need(objection=objection)
        if not self._devices.are_listed:
            text = "spec.resourceClaims: claims and devices have not been listed yet"
            return Need(objection=Objection(Reason.INVALID_OBJECT, text))
        claims = self._state.claims_of(pod.device_claims, namespace=pod.namespace, pod_uid=pod.uid)
        if isinstance(claims, Unresolved):
            return Need(objection=Objection(Reason.INVALID_OBJECT, claims.text))
        for index, claim in enumerate(claims):
            path = f"spec.resourceClaims[{index}]"
            if claim.allocation is not None:
                text = f"{path}: {claim} still has the devices of an earlier attempt"
                return Need(objection=Objection(Reason.INVALID_OBJECT, text))
            problem = self._problem(claim.spec)
            if problem is not None:
                return Need(objection=replace(problem, message=f"{path}: {problem.message}"))
        return Need(claims=tuple(claim.spec for claim in claims))

    def _problem(self, spec: ClaimSpec) -> Objection | None:
        """The first error of a claim or of its classes, or the first field that is not supported."""
        if spec not in self._problems:
            wrong = self._matcher.problems(spec, self._devices.classes)
            found = [Objection(Reason.INVALID_OBJECT, each) for each in wrong]
            found += [Objection(Reason.UNSUPPORTED_FIELD, each) for each in spec.unsupported]
            self._problems[spec] = found[0] if found else None
        return self._problems[spec]


def _shared(pod: Pod) -> Iterator[Objection]:
    for index, each in enumerate(pod.device_claims):
        if not each.is_own:
            path = f"spec.resourceClaims[{index}].resourceClaimName"
            text = f"{path}: a claim that is not made of a template is not supported yet"
            yield Objection(Reason.UNSUPPORTED_FIELD, text, "Use resourceClaimTemplateName")
