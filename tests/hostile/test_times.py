"""Extreme times never end in an exception, neither in `phalanx decide` nor in the scheduler."""

import contextlib
import io
import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from phalanx.cli.app import main
from phalanx.model.api.kinds import KINDS

from tests.examples import holds
from tests.hostile.harness import Cluster, add_healthy, check_healthy, event
from tests.hostile.times import DECODABLE, UNREADABLE, Object, cluster


def decided(objects: list[Object], path: Path, *options: str) -> tuple[int, str]:
    """The exit code of `phalanx decide` about these objects, and what it writes to standard error."""
    items = [{"apiVersion": KINDS[kind].api_version, "kind": kind, **document} for kind, document in objects]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["decide", "-f", str(path), *options])
    return code, err.getvalue()


@holds(12)
@given(seed=st.integers(0, 2**32))
def test_decide_survives_extreme_times(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    random, path = Random(seed), tmp_path_factory.getbasetemp() / "times.json"
    options = random.choice(((), (), ("--now", random.choice(DECODABLE))))
    code, said = decided(cluster(random, DECODABLE), path, *options)
    assert code in (0, 3), said
    code, said = decided(cluster(random, (*DECODABLE, *UNREADABLE)), path, *options)
    assert code in (0, 2, 3), said
    if code == 2:
        assert all("expected a time such as" in line or line.startswith("and ") for line in said.splitlines())


@holds(12)
@given(seed=st.integers(0, 2**32))
async def test_the_scheduler_survives_extreme_times(seed: int) -> None:
    """Every object that a server in Go can send is read, and healthy gangs are placed beside them."""
    random, scheduler = Random(seed), Cluster()
    add_healthy(scheduler)
    for kind, document in cluster(random, (*DECODABLE, *UNREADABLE[:4])):
        scheduler.send(kind, event("ADDED", json.dumps(document).encode()))
    await scheduler.deliver()
    assert not scheduler.warnings
    for _ in range(3):
        snapshot, result = scheduler.cycle()
        check_healthy(snapshot, result)
