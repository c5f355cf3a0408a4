"""How control planes are kept apart, and how the files of dead owners are removed."""

from pathlib import Path

import pytest
from phalanx_controlplane import run_folder
from phalanx_controlplane.run_folder import RunFolder

from tests.fake_objects import collection_path


def test_two_leases_never_share_a_port() -> None:
    first, second = run_folder.reserve(6), run_folder.reserve(6)
    try:
        assert not set(first.ports) & set(second.ports)
    finally:
        first.release()
        second.release()


def test_only_folders_of_dead_owners_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = tmp_path / "base"
    monkeypatch.setattr(run_folder, "_base", lambda: base)
    living, dead = RunFolder(), RunFolder()
    assert dead._lock is not None
    dead._lock.close()  # as the kernel does when a process dies
    last = RunFolder()
    assert living.path.exists()
    assert not dead.path.exists()
    for each in (living, last):
        each.remove()
    assert list(base.iterdir()) == []


@pytest.mark.parametrize(
    ("version", "kind", "namespace", "path"),
    [
        ("v1", "Pod", "a", "/api/v1/namespaces/a/pods"),
        ("v1", "Node", None, "/api/v1/nodes"),
        ("scheduling.k8s.io/v1", "PriorityClass", None, "/apis/scheduling.k8s.io/v1/priorityclasses"),
        (
            "scheduling.phalanx.dev/v1alpha1",
            "Topology",
            None,
            "/apis/scheduling.phalanx.dev/v1alpha1/topologies",
        ),
        ("batch/v1", "Job", "a", "/apis/batch/v1/namespaces/a/jobs"),
    ],
)
def test_where_an_object_is_created(version: str, kind: str, namespace: str | None, path: str) -> None:
    metadata = {"name": "x"} if namespace is None else {"name": "x", "namespace": namespace}
    assert collection_path({"apiVersion": version, "kind": kind, "metadata": metadata}) == path
