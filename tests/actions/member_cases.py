"""Random gangs on tiny clusters, and an exhaustive search over all sets of members and all placements.

It follows `docs/roles.md` ("Which members start") and shares no code with the scheduler.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from random import Random

from msgspec import Struct
from msgspec.structs import replace
from phalanx.model.gangs import RoleSpec, SubgroupSpec
from phalanx.model.names import PodUid

from tests.builders import Decided, Scenario

RACK = "rack"


class Machine(Struct, frozen=True):
    """A node: the label `group`, its rack (empty for none), and its free GPUs."""

    name: str
    group: str
    rack: str
    gpus: int


class Member(Struct, frozen=True):
    """A waiting member; `group` is its node selector, empty for none. `on` is the node where it runs."""

    gpus: int
    group: str = ""
    role: str = ""
    subgroup: str = ""
    on: str = ""


class Part(Struct, frozen=True):
    """A subgroup."""

    name: str
    least: int
    parent: str = ""
    in_one_rack: bool = False
    segment: int = 0


class MemberCase(Struct, frozen=True):
    """A gang and the nodes for it."""

    machines: tuple[Machine, ...]
    members: tuple[Member, ...]
    """In the order of the gang."""
    least: int
    roles: dict[str, int]
    """The minimum by role."""
    parts: tuple[Part, ...] = ()
    some_parts: int = 0
    """`minSubGroups`, or 0."""
    in_one_rack: bool = False

    # --- for the scheduler --------------------------------------------------------------------------------

    def scenario(self) -> Scenario:
        scenario = Scenario(RACK)
        for each in self.machines:
            scenario.nodes(each.name.removesuffix("-0"), gpu=each.gpus, within=each.rack)
            node = scenario._nodes[f"{each.name}"]
            scenario._nodes[node.name] = replace(node, labels={**node.labels, "kind": each.group})
        scenario.gang("g", 0, min=self.least, required=RACK if self.in_one_rack else None, started=False)
        for each in self.members:
            selector = {"kind": each.group} if each.group else {}
            on = [each.on] if each.on else []
            scenario.role("g", 1, gpu=each.gpus, selector=selector, role=each.role, on=on)
        pods = [
            replace(pod, subgroup=each.subgroup)
            for pod, each in zip(scenario.members("g"), self.members, strict=True)
        ]
        counts = {role: sum(each.role == role for each in self.members) for role in self.roles}
        return scenario.change(
            "g",
            members=tuple(pods),
            roles=tuple(RoleSpec(name, counts[name], least) for name, least in self.roles.items()),
            subgroups=tuple(
                SubgroupSpec(
                    part.name,
                    part.least,
                    parent=part.parent,
                    required=RACK if part.in_one_rack or part.segment else None,
                    segment=part.segment,
                )
                for part in self.parts
            ),
            min_subgroups=self.some_parts,
        )

    # --- by the documentation -----------------------------------------------------------------------------

    @property
    def waiting(self) -> list[int]:
        return [index for index, each in enumerate(self.members) if not each.on]

    @property
    def running(self) -> list[int]:
        return [index for index, each in enumerate(self.members) if each.on]

    def around(self, subgroup: str) -> list[str]:
        """The subgroup and the subgroups around it."""
        found: list[str] = []
        parents = {part.name: part.parent for part in self.parts}
        while subgroup:
            found.append(subgroup)
            subgroup = parents[subgroup]
        return found

    def is_enough(self, chosen: Sequence[int]) -> bool:
        """Whether these members and the running ones satisfy all minimums."""
        members = [self.members[index] for index in (*chosen, *self.running)]
        complete = self._complete(members)
        if self.some_parts:
            outer = {self._outer(self.members[index]) for index in chosen} - {""}
            if len(complete) < self.some_parts or not outer <= complete:
                return False
            members = [each for each in members if self._outer(each) in {"", *complete}]
        elif len(complete) < sum(not part.parent for part in self.parts):
            return False
        return len(members) >= self.least and all(
            sum(each.role == role for each in members) >= least for role, least in self.roles.items()
        )

    def is_missing(self, index: int) -> bool:
        """Whether the member brings the gang nearer to its minimum, or the gang has its minimum."""
        if self.is_enough(()):
            return True
        sets = self.sufficient()
        least = min(map(len, sets), default=0)
        return any(index in chosen for chosen in sets if len(chosen) == least)

    def _outer(self, member: Member) -> str:
        return self.around(member.subgroup)[-1] if member.subgroup else ""

    def _complete(self, members: Sequence[Member]) -> set[str]:
        """The outer subgroups that reach their minimum, those inside them included."""
        inside = {
            part.name: sum(part.name in self.around(each.subgroup) for each in members) for part in self.parts
        }
        lacking = {self.around(part.name)[-1] for part in self.parts if inside[part.name] < part.least}
        return {part.name for part in self.parts if not part.parent} - lacking

    def fits(self, chosen: Sequence[int]) -> bool:
        """Whether these members fit at once, in some way, under all rules."""
        return any(True for _ in self.placements(chosen))

    def placements(self, chosen: Sequence[int]) -> Iterator[dict[int, Machine]]:
        places = [
            [each for each in self.machines if self.may_run(self.members[index], each)] for index in chosen
        ]
        for machines in product(*places):
            there = dict(zip(chosen, machines, strict=True))
            if self._is_within_capacity(there) and self._keeps_racks(there):
                yield there

    def may_run(self, member: Member, machine: Machine) -> bool:
        return member.group in ("", machine.group) and member.gpus <= machine.gpus

    def can_never_run(self, index: int) -> bool:
        """Whether no node would take it, even without any other pod."""
        return not any(self.may_run(self.members[index], each) for each in self.machines)

    def _there(self, new: dict[int, Machine]) -> list[tuple[Member, Machine]]:
        """All members with a node."""
        on = {index: self._machine(self.members[index].on) for index in self.running}
        return [(self.members[index], machine) for index, machine in {**on, **new}.items()]

    def _is_within_capacity(self, new: dict[int, Machine]) -> bool:
        there = self._there(new)
        return all(
            sum(member.gpus for member, machine in there if machine == each) <= each.gpus
            for each in self.machines
        )

    def _machine(self, name: str) -> Machine:
        return next(each for each in self.machines if each.name == name)

    def _keeps_racks(self, new: dict[int, Machine]) -> bool:
        there = self._there(new)
        if self.in_one_rack and not _is_one_rack([machine.rack for _, machine in there]):
            return False
        return all(
            self._keeps_rack_of(
                part,
                [machine.rack for each, machine in there if part.name in self.around(each.subgroup)],
                [new[index].rack for index in new if part.name in self.around(self.members[index].subgroup)],
            )
            for part in self.parts
        )

    def _keeps_rack_of(self, part: Part, racks: Sequence[str], new: Sequence[str]) -> bool:
        """Whether the racks of the subgroup are as required, if it gets new members."""
        if part.segment:
            return all(rack and racks.count(rack) % part.segment == 0 for rack in new)
        return not new or not part.in_one_rack or _is_one_rack(racks)

    def sufficient(self) -> list[tuple[int, ...]]:
        """All sets of waiting members that satisfy the minimums, in no order."""
        waiting = self.waiting
        return [
            chosen
            for count in range(1, len(waiting) + 1)
            for chosen in combinations(waiting, count)
            if self.is_enough(chosen)
        ]

    def startable(self) -> list[tuple[int, ...]]:
        """The sets of waiting members that satisfy the minimums and fit."""
        return [chosen for chosen in self.sufficient() if self.fits(chosen)]

    def preferred(self) -> tuple[int, ...] | None:
        """Of the sets without a member too many that fit, the first one in the order of the members."""
        least = [chosen for chosen in self.sufficient() if self._has_none_too_many(chosen)]
        return min((chosen for chosen in least if self.fits(chosen)), key=self._position, default=None)

    def _has_none_too_many(self, chosen: tuple[int, ...]) -> bool:
        return not any(self.is_enough([other for other in chosen if other != index]) for index in chosen)

    def _position(self, chosen: tuple[int, ...]) -> tuple[bool, ...]:
        return tuple(index not in chosen for index in range(len(self.members)))


def _is_one_rack(racks: Sequence[str]) -> bool:
    return "" not in racks and len(set(racks)) <= 1


# --- random cases -----------------------------------------------------------------------------------------


def member_case(chance: Random) -> MemberCase:
    """A gang of up to six members and up to three nodes."""
    machines = tuple(
        Machine(
            f"n{index}-0",
            chance.choice(("x", "y")),
            chance.choice(("a", "a", "b", "b", "")),
            chance.choice((0, 1, 2, 3, 4)),
        )
        for index in range(chance.randint(1, 3))
    )
    parts, some_parts = _parts(chance)
    roles = [f"r{index}" for index in range(chance.choice((0, 0, 1, 2)))]
    names = (
        ["", *(part.name for part in parts)]
        if chance.random() < 0.5
        else [part.name for part in parts] or [""]
    )
    templates = [
        Member(
            gpus=chance.choice((0, 1, 1, 2, 2, 3, 4)),
            group=chance.choice(("", "", "", "", "x", "y", "none")),
            role=chance.choice(roles) if roles and chance.random() < 0.8 else "",
            subgroup=chance.choice(names),
        )
        for _ in range(chance.randint(2, 5))
    ]
    members = [chance.choice(templates) for _ in range(chance.randint(2, 6))]
    least_by_role = {
        role: chance.randint(0, min(2, sum(each.role == role for each in members))) for role in roles
    }
    needed = sorted(part.least for part in parts if not part.parent)
    low = max(1, sum(least_by_role.values()), sum(needed[:some_parts] if some_parts else needed))
    case = MemberCase(
        machines=machines,
        members=tuple(members),
        least=max(low, chance.randint(1, min(3, len(members)))),
        roles=least_by_role,
        parts=parts,
        some_parts=some_parts,
        in_one_rack=chance.random() < 0.2,
    )
    return _with_running(case, chance) if chance.random() < 0.25 else case


def _parts(chance: Random) -> tuple[tuple[Part, ...], int]:
    if chance.random() < 0.5:
        return (), 0
    parts = [_part(chance, f"s{index}") for index in range(chance.randint(1, 3))]
    if chance.random() < 0.3:
        parts.append(_part(chance, "inner", parent=parts[0].name))
    outer = sum(not part.parent for part in parts)
    return tuple(parts), chance.randint(1, outer) if chance.random() < 0.4 else 0


def _part(chance: Random, name: str, parent: str = "") -> Part:
    if chance.random() < 0.1:
        return Part(name, 2, parent, segment=2)
    return Part(name, chance.choice((1, 1, 2)), parent, in_one_rack=chance.random() < 0.3)


def _with_running(case: MemberCase, chance: Random) -> MemberCase:
    """One member runs already, so that the gang is not complete."""
    index = chance.randrange(len(case.members))
    places = [each for each in case.machines if case.may_run(case.members[index], each)]
    if not places:
        return case
    changed = replace(case.members[index], on=chance.choice(places).name)
    other = replace(case, members=(*case.members[:index], changed, *case.members[index + 1 :]))
    return case if other.is_enough(()) or not other._keeps_racks({}) else other


# --- the check --------------------------------------------------------------------------------------------


def disagreements(case: MemberCase) -> list[str]:
    """How the decision differs from the documentation."""
    decided = case.scenario().decide()
    found = [*_about_start(case, decided), *_about_named(case, decided)]
    if case.running and not case.some_parts and not any(part.segment for part in case.parts):
        found += _about_repairs(case)
    return found


def _about_start(case: MemberCase, decided: Decided) -> Iterator[str]:
    starts = [each for each in decided.placements("g") if each.cause == "start"]
    possible = case.startable()
    if bool(starts) != bool(possible):
        yield f"{'started' if starts else 'waits'}, but {len(possible)} sets of members fit"
    if not starts:
        return
    chosen = tuple(sorted(_index(bind.pod) for bind in starts[0].binds))
    if chosen not in possible:
        yield f"started with {chosen}, which does not fit or is not enough"
    has_segments = any(part.segment for part in case.parts)
    preferred = case.preferred()
    if preferred is not None and not case.some_parts and not has_segments and chosen != preferred:
        yield f"started with {chosen}, not with {preferred}"


def _about_named(case: MemberCase, decided: Decided) -> Iterator[str]:
    verdicts = [each for each in decided.result.verdicts if each.gang == "gang-g"]
    if len(case.members) == 1 or not verdicts or verdicts[0].reason == "MembersMissing":
        return
    named = " ".join(each.subject for each in verdicts[0].evidence if "can run on no node" in each.finding)
    for index in case.waiting:
        if case.can_never_run(index) != (f"g-{index}" in named):
            yield f"member {index} can {'never ' * case.can_never_run(index)}run; named are: {named}"


def _about_repairs(case: MemberCase) -> Iterator[str]:
    """A gang that has started and is incomplete: what fits and is missing gets a node in the next cycles."""
    scenario = case.scenario().change("g", started=True)
    for _ in range(3):
        scenario.take(scenario.decide())
    nodes = {_index(pod.uid): str(pod.node) for pod in scenario.members("g") if pod.node is not None}
    members = [replace(each, on=nodes.get(index, "")) for index, each in enumerate(case.members)]
    after = replace(case, members=tuple(members))
    for index in after.waiting:
        if after.is_missing(index) and after.fits((index,)):
            yield f"started, and member {index} waits although it fits"


def _index(pod: PodUid) -> int:
    return int(pod.rpartition("-")[2])


def described(case: MemberCase) -> str:
    """The case for a person who reads a failure."""
    lines = [f"minMember {case.least}, roles {case.roles}, minSubGroups {case.some_parts}"]
    lines += [f"in one rack: {case.in_one_rack}", *map(str, case.parts), *map(str, case.machines)]
    return "\n".join([*lines, *(f"g-{index}: {each}" for index, each in enumerate(case.members))])
