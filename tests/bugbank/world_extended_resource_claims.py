"""Bugs with the claims that a scheduler makes for extended resources of pods."""

from typing import Final

from tests.bugbank.bank import Mutant, Played

_PLAY: Final = Played("plays_extended_resource_claims:claims_end_with_their_pods")

EXTENDED_RESOURCE_CLAIMS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="a claim for extended resources has no owner, and stays when its pod is deleted",
        issues=("HAMi-DRA #21",),
        module="phalanx.kube.devices.claim_documents",
        edits={'            "ownerReferences": [owner],\n': ""},
        caught_by=_PLAY,
    ),
    Mutant(
        name="the name that a claim for extended resources has in memory is taken for its real name",
        issues=("kubernetes #141467",),
        module="phalanx.cache.devices.extended_resource_claims",
        edits={
            "        if grant.extended_claim is None:\n": "        if grant.extended_claim is not None:\n"
        },
        caught_by=_PLAY,
    ),
    Mutant(
        name="the finalizer of a deleted claim for extended resources stays",
        issues=("kubernetes #132334",),
        module="phalanx.kube.devices.claim_writer",
        edits={
            '        if finalizers := claim["metadata"].get("finalizers"):\n': (
                "        if finalizers := ():\n"
            )
        },
        caught_by=Played("plays_extended_resource_claims:a_leader_ends_before_the_binds"),
    ),
    Mutant(
        name="each init container gets devices of its own",
        issues=("kubernetes #134880", "kubernetes #134882"),
        module="phalanx.model.supplies.devices.extended_resources",
        edits={"    return [largest], [\n": "    return made, [\n"},
        caught_by=Played("plays_extended_resource_claims:init_containers_use_devices_one_after_the_other"),
    ),
)
