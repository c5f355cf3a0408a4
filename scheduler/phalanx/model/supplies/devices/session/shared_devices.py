"""The devices of claims that pods of a gang share: the present choice of a session, and others beside it."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Final

from phalanx.model.names import GangId
from phalanx.model.pods import Pod
from phalanx.model.supplies.devices.claims import Allocation, Claim
from phalanx.model.supplies.devices.session.needs import NOTHING, DeviceNeeds, Need, Users
from phalanx.model.supplies.devices.session.shared_choices import (
    NO_OTHERS,
    Chosen,
    OtherChoices,
    SharedChoices,
)
from phalanx.model.supplies.devices.uses import DeviceUse

Changed = Callable[[], frozenset[DeviceUse]]


class SharedDevices:
    """Nodes are found for one choice of devices at a time."""

    def __init__(
        self,
        choices: SharedChoices,
        needs: DeviceNeeds,
        changed: tuple[Changed, Changed],
    ) -> None:
        """`changed`: the devices that the cycle has taken, and those that it has freed."""
        self._choices = choices
        self._needs = needs
        self._taken, self._freed = changed
        self._unchosen: set[tuple[Users, ...]] = set()
        self.bounded: Final[set[GangId]] = set()
        """Gangs that do not fit, and for which not all choices were tried that might help."""

    def chosen(self, need: Need) -> Chosen:
        """The devices of the claims that pods of the gang share, by UID of the claim."""
        if not need.users:
            return {}
        use = self._needs.use_of(need)
        if need.users in self._unchosen:
            return self._choices.known(use)
        return self._choices.allocations(need.users, use, self._taken(), self._freed())

    def claims(self, need: Need) -> list[Claim]:
        """The claims that a pod shares with others."""
        return list(self._needs.shared_claims(need).values())

    def of_pod(self, need: Need) -> list[Allocation | None]:
        """The devices of these claims: None for one that has none."""
        chosen = self.chosen(need)
        found = [chosen.get(claim.uid) for claim in self.claims(need)]
        return [each for each in found if each is not None] if need.users in self._unchosen else found

    def key(self, pods: Sequence[Pod]) -> Hashable:
        """Equal while the same devices are chosen for the claims that pods of a gang share, of which these
        are some."""
        needs = [self._needs.of(pod.shape) for pod in pods if pod.shape.device_slot]
        need = next((each for each in needs if each.users), NOTHING)
        if not need.users:
            return ()
        return need.users in self._unchosen, tuple(sorted(self.chosen(need).items(), key=itemgetter(0)))

    def others(self, need: Need, pods: Mapping[str, int]) -> OtherChoices:
        """Choices beside the present one.

        `pods`: by need, at least so many are to be placed. Choices with which these cannot fit are left out.
        """
        if not need.users:
            return NO_OTHERS
        use = self._needs.use_of(need)
        return self._choices.others(need.users, use, pods, self._taken(), self._freed())

    def note(self, gang: GangId, *, is_bounded: bool) -> None:
        """Note whether choices that were not tried might place more of the gang."""
        (self.bounded.add if is_bounded else self.bounded.discard)(gang)

    def choose(self, need: Need, chosen: Chosen) -> None:
        """Use these devices for those of the claims that have none yet."""
        self._choices.choose(need.users, chosen, self._taken(), self._freed())

    @contextmanager
    def keeping_choice(self, need: Need) -> Iterator[None]:
        """After this context, the devices are chosen that were chosen before."""
        chosen = self.chosen(need)
        try:
            yield
        finally:
            self.choose(need, chosen)

    @contextmanager
    def unchosen(self, need: Need) -> Iterator[None]:
        """Within this context, members of the gang are counted on each node as if the claims that they share
        had devices there that nobody else needs. So no choice of devices lets more of them fit."""
        self._unchosen.add(need.users)
        try:
            yield
        finally:
            self._unchosen.discard(need.users)
