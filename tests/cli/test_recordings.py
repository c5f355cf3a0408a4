"""`phalanx snapshot` and `phalanx replay`, with the real debug endpoint."""

import asyncio
import gzip
import threading
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from phalanx.cli.configuration import read_config
from phalanx.cli.manifests.read import read_manifests
from phalanx.cli.static_cluster import StaticCluster
from phalanx.cycle import decide
from phalanx.observe.recording import Recording, decode, encode
from phalanx.web.server import debug_app, serving

from tests.cli.conftest import Phalanx

SCENARIOS = Path(__file__).resolve().parent.parent / "scenarios"
ALL = sorted(path for path in SCENARIOS.glob("*.yaml") if not path.name.endswith(".expect.yaml"))


def recording_of(path: Path) -> Recording:
    config = read_config(None)
    manifests = read_manifests([str(path)])
    snapshot = StaticCluster(manifests.objects, config=config, now=0).snapshot()
    return Recording(
        version=version("phalanx-scheduler"),
        config=msgspec.Raw(msgspec.json.encode(config)),
        snapshot=snapshot,
        result=decide(snapshot, config),
    )


@pytest.fixture
def recording() -> Recording:
    return recording_of(SCENARIOS / "knavigator-topology.yaml")


@pytest.fixture
def endpoint(recording: Recording) -> Iterator[str]:
    """The debug endpoint on a separate port, on an event loop in a thread."""
    loop, stop, ready, port = asyncio.new_event_loop(), asyncio.Event(), threading.Event(), []

    async def content() -> bytes:
        return encode(recording)

    async def none() -> None:
        return None

    async def serve() -> None:
        app = debug_app(last=content, last_error=none, last_inconclusive=none)
        async with serving(app, host="127.0.0.1", port=0) as bound:
            port.append(bound)
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    ready.wait()
    yield f"http://127.0.0.1:{port[0]}"
    loop.call_soon_threadsafe(stop.set)
    thread.join()
    loop.close()


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_replaying_a_recorded_cycle_gives_the_same_decision(
    path: Path, phalanx: Phalanx, tmp_path: Path
) -> None:
    file = tmp_path / "cycle.gz"
    file.write_bytes(encode(recording_of(path)))
    done = phalanx("replay", file)
    assert (done.code, done.err) == (0, "")
    assert len(done.out.splitlines()) == 1


def test_a_snapshot_comes_from_the_debug_endpoint(
    endpoint: str, recording: Recording, phalanx: Phalanx, tmp_path: Path
) -> None:
    file = tmp_path / "cycle.gz"
    assert phalanx("snapshot", "--url", endpoint, "-o", file).code == 0
    assert decode(file.read_bytes()).result == recording.result
    assert phalanx("replay", file).code == 0


def test_without_an_error_there_is_no_error_recording(
    endpoint: str, phalanx: Phalanx, tmp_path: Path
) -> None:
    done = phalanx("snapshot", "--error", "--url", endpoint, "-o", tmp_path / "cycle.gz")
    assert done.code == 1
    assert done.err == f"snapshot: {endpoint}: no cycle had an error\n"


def test_the_inconclusive_and_error_options_exclude_each_other(
    endpoint: str, phalanx: Phalanx, tmp_path: Path
) -> None:
    done = phalanx("snapshot", "--inconclusive", "--url", endpoint, "-o", tmp_path / "cycle.gz")
    assert done.err == f"snapshot: {endpoint}: no cycle had an inconclusive solver run\n"
    done = phalanx("snapshot", "--inconclusive", "--error", "--url", endpoint, "-o", tmp_path / "cycle.gz")
    assert (done.code, "expected one of them" in done.err) == (2, True)


WITH_SECRETS = """
apiVersion: v1
kind: Pod
metadata:
  name: a
  annotations: {example.com/note: hunter2}
spec:
  schedulerName: phalanx
  containers:
    - name: main
      args: [--password=hunter2]
      env: [{name: PASSWORD, value: hunter2}]
      resources: {requests: {cpu: 4}}
"""


def test_a_recording_has_no_arguments_or_environment_of_containers(phalanx: Phalanx, tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(WITH_SECRETS)
    assert b"hunter2" not in gzip.decompress(encode(recording_of(path)))
    done = phalanx("decide", "-f", path)
    assert "hunter2" not in done.out + done.err


def test_encoding_a_recording_is_deterministic(recording: Recording) -> None:
    assert encode(recording) == encode(decode(encode(recording)))


def test_a_different_decision_is_shown_as_a_diff(
    recording: Recording, phalanx: Phalanx, tmp_path: Path
) -> None:
    placement = recording.result.placements[0]
    moved = replace(placement.binds[0], node="n4")
    result = replace(recording.result, placements=(replace(placement, binds=(moved, *placement.binds[1:])),))
    file = tmp_path / "cycle.gz"
    file.write_bytes(encode(replace(recording, result=result)))
    done = phalanx("replay", file)
    assert done.code == 1
    assert '-          "node": "n4"' in done.out
    assert '+          "node": "n5"' in done.out


def test_a_recording_of_another_version_prints_a_note(
    recording: Recording, phalanx: Phalanx, tmp_path: Path
) -> None:
    file = tmp_path / "cycle.gz"
    file.write_bytes(encode(replace(recording, version="0.0.1")))
    done = phalanx("replay", file)
    assert done.code == 0
    assert done.err.startswith("note: phalanx 0.0.1 decided this cycle")


def test_files_that_are_no_recordings(recording: Recording, phalanx: Phalanx, tmp_path: Path) -> None:
    file = tmp_path / "cycle.gz"
    assert phalanx("replay", file).code == 2
    file.write_bytes(b"text")
    assert phalanx("replay", file).code == 2
    file.write_bytes(gzip.compress(b"{}"))
    assert phalanx("replay", file).err.startswith(f"{file}: expected a file written by `phalanx snapshot`")
    for content in (encode(recording)[:100], encode(recording) + b"more", b""):
        file.write_bytes(content)
        assert phalanx("replay", file).code == 2
    file.write_bytes(encode(replace(recording, format=7)))
    assert phalanx("replay", file).err == f"{file}: expected file format 2, found 7\n"


def test_a_recording_with_a_supply_that_is_not_installed(
    recording: Recording, phalanx: Phalanx, tmp_path: Path
) -> None:
    supplies = {**recording.snapshot.supplies, "licences": {}}
    file = tmp_path / "cycle.gz"
    file.write_bytes(encode(replace(recording, snapshot=replace(recording.snapshot, supplies=supplies))))
    done = phalanx("replay", file)
    assert (done.code, done.out) == (2, "")
    assert done.err == f"{file}: cannot replay this file: the supply 'licences' is not installed\n"


def test_the_size_of_an_unpacked_recording_is_limited(
    recording: Recording, phalanx: Phalanx, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = encode(recording)
    size = len(gzip.decompress(content))
    file = tmp_path / "cycle.gz"
    file.write_bytes(content)
    monkeypatch.setattr("phalanx.observe.recording.RECORDING_BYTES_MAX", size)
    assert phalanx("replay", file).code == 0
    monkeypatch.setattr("phalanx.observe.recording.RECORDING_BYTES_MAX", size - 1)
    done = phalanx("replay", file)
    assert (done.code, done.out) == (2, "")
    assert done.err == f"{file}: expected at most {size - 1} bytes after unpacking, found more\n"


@pytest.mark.parametrize("scheme", ["file://", "ftp://", "data:,", ""])
def test_only_http_addresses_are_read(
    scheme: str, recording: Recording, phalanx: Phalanx, tmp_path: Path
) -> None:
    (tmp_path / "debug").mkdir()
    (tmp_path / "debug" / "snapshot").write_bytes(encode(recording))
    done = phalanx("snapshot", "--url", f"{scheme}{tmp_path}", "-o", tmp_path / "cycle.gz")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("--url: expected an address that starts with http:// or https://, found ")
    assert not (tmp_path / "cycle.gz").exists()


def test_an_unreachable_endpoint(phalanx: Phalanx, tmp_path: Path) -> None:
    done = phalanx("snapshot", "--url", "http://127.0.0.1:1", "-o", tmp_path / "cycle.gz")
    assert done.code == 1
    assert done.err.startswith("snapshot: http://127.0.0.1:1: ")
    assert not (tmp_path / "cycle.gz").exists()
