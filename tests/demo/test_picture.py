"""The tree of racks, and the certificate in words."""

import pytest
from phalanx.model.api.pod_groups import CertificateStatus
from phalanx_simulator.demos.fabric import NodeUse, Tree, certificate_in_words, legend, picture, racks_used

ROLES = ["trainer", "sampler"]
FREE = NodeUse(gang={}, others=0)

TREE: Tree = {
    "spine-1": {
        "rack-1-1": [FREE, NodeUse(gang={"trainer": (8,)}, others=0)],
        "rack-1-2": [NodeUse(gang={"sampler": (2, 2)}, others=3), NodeUse(gang={}, others=8)],
    },
    "spine-2": {"rack-2-1": [NodeUse(gang={}, others=6), FREE]},
}


def test_every_gpu_is_one_character() -> None:
    assert [line.plain.rstrip() for line in picture(TREE, roles=ROLES)] == [
        "spine-1  9 GPUs free, 1 whole node",
        "  rack-1-1  ········ TTTTTTTT 1 trainer",
        "  rack-1-2  ░░░SSSS· ░░░░░░░░ 2 samplers",
        "spine-2  10 GPUs free, 1 whole node",
        "  rack-2-1  ░░░░░░·· ········",
    ]


def test_a_role_has_the_same_colour_in_picture_and_legend() -> None:
    seen = [*picture(TREE, roles=ROLES), legend({"trainer": "a trainer", "sampler": "a sampler"})]
    styles = {
        (line.plain[span.start], str(span.style))
        for line in seen
        for span in line.spans
        if span.start < span.end and line.plain[span.start] in "TS"
    }
    assert len(styles) == len(ROLES)


def test_racks_used_are_those_with_pods_of_the_gang() -> None:
    assert list(racks_used(TREE)) == [("spine-1", "rack-1-1"), ("spine-1", "rack-1-2")]


@pytest.mark.parametrize(
    ("terms", "objective", "bound", "by", "words"),
    [
        (
            ("domains:spine", "domains:rack"),
            (1, 3),
            (1, 3),
            "cp-sat",
            "1 spine, 3 racks: proven by CP-SAT, no placement uses fewer",
        ),
        (
            ("domains:spine", "domains:rack", "tightness:rack"),
            (1, 3, 9),
            (1, 3, 8),
            "cp-sat",
            "1 spine, 3 racks: proven by CP-SAT, no placement uses fewer",
        ),
        (
            ("domains:spine", "domains:rack"),
            (1, 3),
            (1, 2),
            "cp-sat",
            "1 spine, 3 racks (at least 2): not proven to be minimal",
        ),
        (
            ("unplaced", "domains:spine", "cost"),
            (0, 1, 7),
            (0, 1, 7),
            "tree-dp",
            "1 spine: proven by a dynamic program on the tree, no placement uses fewer",
        ),
        (("domains:rack",), (2,), (2,), "oracle", "2 racks: proven by oracle, no placement uses fewer"),
    ],
)
def test_a_certificate_claims_only_what_was_proven(
    terms: tuple[str, ...], objective: tuple[int, ...], bound: tuple[int, ...], by: str, words: str
) -> None:
    certificate = CertificateStatus(
        proven=objective == bound, terms=terms, objective=objective, bound=bound, by=by
    )
    assert certificate_in_words(certificate) == words
