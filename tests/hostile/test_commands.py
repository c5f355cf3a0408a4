"""Errors that only manifests can have, since an API server refuses them: `phalanx decide` names them."""

import json
from pathlib import Path

import pytest
from phalanx.cli.app import main

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "spec": {"schedulerName": "phalanx", "containers": [{"name": "main"}]},
}
GROUP = {"apiVersion": "scheduling.phalanx.dev/v1alpha1", "kind": "PodGroup", "spec": {"minMember": 1}}


@pytest.mark.parametrize("kind", [POD, GROUP], ids=["pods", "groups"])
def test_a_duplicate_uid_is_refused(
    kind: dict[str, object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of two gangs with one UID, one had no result."""
    path = tmp_path / "objects.json"
    items = [{**kind, "metadata": {"name": name, "uid": "u"}} for name in ("a", "b")]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert main(["decide", "-f", str(path)]) == 2
    named = f"{path}: {kind['kind']}"
    expected = f"{named} b: metadata.uid: expected a unique UID, found that of {named} a\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize(("amount", "code"), [(10**30, 0), (2**63, 0), (-(10**30), 2), (10**400, 2)])
def test_an_amount_beyond_64_bits_gives_a_verdict_or_an_error(
    amount: int, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An amount above all nodes gives a verdict; an invalid amount is an error that names the field."""
    path = tmp_path / "object.json"
    spec = {
        "schedulerName": "phalanx",
        "containers": [{"name": "main", "resources": {"requests": {"cpu": amount}}}],
    }
    path.write_text(json.dumps({**POD, "metadata": {"name": "a"}, "spec": spec}))
    assert main(["decide", "-f", str(path)]) == code
    error = capsys.readouterr().err
    where = f"{path}: Pod a: spec.containers[0].resources.requests.cpu: "
    assert error.startswith(where if code else "")
    assert bool(error) == bool(code)


@pytest.mark.parametrize(
    "metadata",
    [
        {"name": "a" * 10_000},
        {"name": "a", "labels": {"b" * 10_000: 7}},
        {"name": "a", "namespace": "c" * 10_000},
    ],
    ids=["name", "label", "namespace"],
)
def test_a_message_about_long_names_is_short(
    metadata: dict[str, object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "object.json"
    path.write_text(json.dumps({**POD, "metadata": metadata}))
    assert main(["decide", "-f", str(path)]) == 2
    assert all(len(line) < 1500 for line in capsys.readouterr().err.splitlines())
