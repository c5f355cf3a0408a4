"""`phalanx decide` and a real API server accept and refuse the same objects."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
import yaml
from phalanx.cli.exits import BadInput
from phalanx.cli.manifests.read import read_manifests
from phalanx.model.api.kinds import KINDS
from phalanx_controlplane.controlplane import ControlPlane

from tests.cli.manifest_mutations import BASES, Object, mutated
from tests.examples import examples

pytestmark = [pytest.mark.controlplane, pytest.mark.asyncio(loop_scope="session")]

TABLE = yaml.safe_load((Path(__file__).parent / "api_server_rules.yaml").read_text())


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def session(control_plane: ControlPlane) -> AsyncIterator[aiohttp.ClientSession]:
    async with control_plane.session() as session:
        yield session


async def answer(session: aiohttp.ClientSession, document: Object) -> str:
    """Why the API server refuses the object; empty if it accepts it. Nothing is stored."""
    kind = KINDS[document["kind"]]
    root = f"/apis/{kind.api_version}" if "/" in kind.api_version else f"/api/{kind.api_version}"
    where = "/namespaces/default" if kind.namespaced else ""
    query = {"dryRun": "All", "fieldValidation": "Strict"}
    async with session.post(f"{root}{where}/{kind.plural}", json=document, params=query) as answered:
        body = await answered.json()
        assert answered.status in (201, 400, 403, 409, 422), body
        return "" if answered.status in (201, 409) else str(body["message"])


def refusal(document: Object, path: Path) -> str:
    """Why `phalanx decide` refuses the object; empty if it accepts it."""
    path.write_text(json.dumps(document))
    try:
        read_manifests([str(path)])
    except BadInput as refused:
        return "\n".join(refused.lines)
    return ""


@pytest.mark.parametrize("kind", BASES)
async def test_the_objects_that_are_mutated_are_valid(
    session: aiohttp.ClientSession, tmp_path: Path, kind: str
) -> None:
    assert await answer(session, BASES[kind]) == ""
    assert refusal(BASES[kind], tmp_path / "object.json") == ""


def applied(case: dict[str, Any]) -> Object:
    """The valid object of the kind with these values at their paths; null removes a field."""
    document: Object = json.loads(json.dumps(BASES[case["kind"]]))
    for path, value in case["set"]:
        *holders, last = path
        at: Any = document
        for part in holders:
            at = at[part]
        if value is None:
            del at[last]
        else:
            at[last] = value
    return document


@pytest.mark.parametrize("case", TABLE, ids=lambda case: case["name"])
async def test_a_table_of_objects(
    session: aiohttp.ClientSession, tmp_path: Path, case: dict[str, Any]
) -> None:
    document = applied(case)
    served, said = await answer(session, document), refusal(document, tmp_path / "object.json")
    assert bool(served) == bool(said) == ("says" in case), f"API server: {served}; decide: {said}"
    if "says" in case:
        (line,) = said.splitlines()
        assert case["says"] in line
        assert line.startswith(f"{tmp_path / 'object.json'}: {case['kind']} ")


async def disagreement(session: aiohttp.ClientSession, seed: int, path: Path) -> str:
    """How the API server and `phalanx decide` differ on a random object; empty if they agree."""
    random = Random(seed)
    document = mutated(random, random.choice((*BASES, "Pod", "Pod", "Pod", "Pod", "Node")))
    served, said = await answer(session, document), refusal(document, path)
    if bool(served) == bool(said):
        return ""
    return f"seed {seed}: API server {served or 'accepts it'}; decide {said or 'accepts it'}"


async def test_random_objects_are_refused_by_both_or_by_none(
    session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    seeds = range(examples(300))
    found = [await disagreement(session, seed, tmp_path / "object.json") for seed in seeds]
    assert "\n".join(filter(None, found)) == ""
