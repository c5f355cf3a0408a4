"""Bugs with volumes: promised twice, bound too late or on the wrong node, reserved for nobody."""

from typing import Final

from tests.bugbank.bank import Mutant, Played

_SUPPLY: Final = "phalanx.model.supplies.volumes.session"
_BINDER: Final = "phalanx.kube.volume_binder"
_COMPETE: Final = Played("plays_world_volumes:gangs_compete_for_local_volumes")
_WHOLE: Final = Played("plays_world_volumes:a_gang_takes_local_volumes")

VOLUMES: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="a volume is promised to two claims of one cycle",
        issues=("OpenShift Origin #4829",),
        module=_SUPPLY,
        edits={
            "        names = match_all([lists[number] for number in needed])\n": (
                "        names = [lists[number][0] for number in needed]\n"
            )
        },
        caught_by=_COMPETE,
    ),
    Mutant(
        name="a volume that was decided for an assumed pod counts as available",
        issues=("kubernetes #56596",),
        module="phalanx.cache.claims",
        edits={"        if volume.name in self._decided:\n": "        if not volume.name:\n"},
        caught_by=Played("plays_world_volumes:a_decided_volume_is_taken"),
    ),
    Mutant(
        name="pods are bound while a claim is not",
        issues=("kubernetes #92458",),
        module=_BINDER,
        edits={"        if not wanted:\n": "        if not wanted or progress.written:\n"},
        caught_by=_WHOLE,
    ),
    Mutant(
        name="each claim of a pod is compared with the space by itself",
        issues=("kubernetes/enhancements #5925",),
        module="phalanx.model.supplies.volumes.classes",
        edits={
            "(provisioning.storage_class)] += provisioning.needs_space\n": (
                "(provisioning.storage_class)] = 1\n"
            )
        },
        caught_by=Played("plays_world_volumes:claims_share_the_space"),
    ),
    Mutant(
        name="space is promised again before the driver has published what is left",
        issues=("TopoLVM #117",),
        module=_SUPPLY,
        edits={
            "                    if pod.assumed and pod.claims and pod.node is not None:\n": (
                "                    if not pod.uid:\n"
            )
        },
        caught_by=Played("plays_world_volumes:space_is_promised_once"),
    ),
    Mutant(
        name="a provisioner that gave up is not noticed",
        issues=("kubernetes #72031", "external-provisioner #697"),
        module=_BINDER,
        edits={
            "        if found.metadata.annotations.get(SELECTED_NODE) == written.node:\n": (
                "        if found.metadata.uid:\n"
            )
        },
        caught_by=Played("plays_world_volumes:a_provisioner_is_slow_and_gives_up"),
    ),
    Mutant(
        name="a large volume is taken although a smaller one suffices",
        issues=(
            "kubernetes #83323",
            "local-static-provisioner #150",
        ),
        module=_SUPPLY,
        edits={"    return volume.size, volume.name\n": "    return -volume.size, volume.name\n"},
        caught_by=Played("plays_world_volumes:the_smallest_volume_is_taken"),
    ),
    Mutant(
        name="a reservation of a gang that ended remains",
        issues=("kubernetes #65131",),
        module="phalanx.kube.volume_reservation",
        edits={'found.status.phase == "Bound":\n': 'found.status.phase != "Bound":\n'},
        caught_by=Played("plays_world_volumes:a_gang_that_ends_gives_its_volumes_back"),
    ),
    Mutant(
        name="a volume that names a claim is for it although it is too small",
        issues=("kubernetes #30690",),
        module="phalanx.model.supplies.volumes.published",
        edits={"    if volume.size < wanted.size:\n": "    if False:\n"},
        caught_by=Played("plays_world_volumes:a_small_volume_names_the_claim"),
    ),
)
