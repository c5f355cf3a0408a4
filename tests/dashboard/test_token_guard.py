"""Users of a cluster sign in with their tokens, and see what they may list."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from phalanx.cli.verbs.options import ClusterOptions
from phalanx.ports import Response
from phalanx.web.server import serving
from phalanx_dashboard.connection import Connection
from phalanx_dashboard.feed import Feed
from phalanx_dashboard.limits import ACCESS_PERIOD_S
from phalanx_dashboard.reading import ClusterReader
from phalanx_dashboard.recordings import Recordings
from phalanx_dashboard.server import dashboard_app
from phalanx_dashboard.token_guard import TokenGuard
from phalanx_simulator.embedded.apiserver.requests import Request
from phalanx_simulator.embedded.apiserver.server import json_response

from tests.cli.test_recordings import SCENARIOS, recording_of
from tests.cli.verbs.conftest import World
from tests.dashboard.conftest import Site
from tests.manual_clock import ManualClock

RIGHTS: dict[str, set[tuple[str, str]]] = {
    "admin": {("pods", ""), ("podgroups", ""), ("nodes", ""), ("topologies", ""), ("queues", "")},
    "speech": {("pods", "speech"), ("podgroups", "speech"), ("queues", "")},
    "half": {("pods", "vision"), ("nodes", "")},
    "nobody": set(),
}
"""By user: resources that may be listed, each with a namespace, or without one for all."""


class Reviews:
    """Answers reviews as an API server does, for users whose tokens are `token-of-NAME`."""

    def __init__(self, world: World) -> None:
        self.rights = {user: set(rights) for user, rights in RIGHTS.items()}
        self.asked: list[Any] = []
        self.problem = 0
        self._handle = world.server.handle

    def handle(self, request: Request) -> Response:
        if "reviews" not in request.path:
            return self._handle(request)
        assert request.method == "POST"
        if self.problem:
            return json_response({"kind": "Status", "reason": "Unwell", "message": "no"}, status=self.problem)
        body = json.loads(request.body)
        self.asked.append(body)
        return json_response(body | {"status": self._status(request.path, body["spec"])}, status=201)

    def _status(self, path: str, spec: Any) -> Any:
        if path == "/apis/authentication.k8s.io/v1/tokenreviews":
            name = spec["token"].removeprefix("token-of-")
            user = {"username": name, "groups": [f"{name}s"], "extra": {"key": ["value"]}}
            return {"authenticated": True, "user": user} if name in self.rights else {"error": "unknown"}
        assert path == "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        name, wanted = spec["user"], spec["resourceAttributes"]
        assert (spec["groups"], spec["extra"], wanted["verb"]) == ([f"{name}s"], {"key": ["value"]}, "list")
        rights = self.rights[name]
        resource = wanted["resource"]
        return {"allowed": bool({(resource, ""), (resource, wanted["namespace"])} & rights)}


class SignIn(Site):
    """The pages behind the guard."""

    reviews: Reviews
    clock: ManualClock

    async def gangs(self, user: str) -> list[str]:
        self.browser.headers["Authorization"] = f"Bearer token-of-{user}"
        return sorted(gang["name"] for gang in (await self.answer("gangs"))["page"]["gangs"])


@pytest_asyncio.fixture
async def signing(tenants: World, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SignIn]:
    reviews, clock = Reviews(tenants), ManualClock()
    monkeypatch.setattr(tenants.server, "handle", reviews.handle)
    options = ClusterOptions(kubeconfig=tenants.kubeconfig)
    reader = ClusterReader(options, clock=clock)
    feed = Feed(reader, Recordings(""), clock=clock, period=1)
    guard = TokenGuard(Connection(options, clock=clock), feed.namespaces, clock=clock, secure=False)
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(serving(dashboard_app(feed, guard), host="127.0.0.1", port=0))
        jar = aiohttp.CookieJar(unsafe=True)
        browser = await stack.enter_async_context(aiohttp.ClientSession(cookie_jar=jar))
        await feed.read()
        site = SignIn(tenants, feed, port, browser)
        site.reviews, site.clock = reviews, clock
        yield site
        guard.close()
        reader.close()


async def test_each_user_sees_what_it_may_list(signing: SignIn) -> None:
    assert await signing.gangs("admin") == ["busy", "large", "note"]
    assert (await signing.answer("topology"))["page"]["domains"][0]["free"] == 15
    assert await signing.gangs("speech") == ["note"]
    assert [row["name"] for row in (await signing.answer("queues"))["page"]["queues"]] == ["all", "vision"]
    assert "you may not list them" in (await signing.answer("topology"))["page"]["leftOut"]
    assert await signing.gangs("half") == []
    assert await signing.gangs("nobody") == []
    answer = await signing.answer("overview")
    assert (answer["page"]["total"], answer["page"]["queues"], len(answer["notes"]) >= 3) == (None, [], True)


async def test_without_an_accepted_token_nothing_is_shown(signing: SignIn) -> None:
    for headers in (
        {},
        {"Authorization": "Bearer token-of-stranger"},
        {"Authorization": "Basic token-of-admin"},
        {"Authorization": f"Bearer {'x' * 5000}"},
    ):
        for path in ("/api/gangs", "/api/live", "/api/recording?cycle=1"):
            status, text = await signing.status(path, headers=headers)
            assert (status, "vision" in text) == (401, False)
    assert len(signing.reviews.asked) == 3


async def test_a_failed_review_shows_nothing(signing: SignIn) -> None:
    for problem in (403, 500):
        signing.reviews.problem = problem
        status, text = await signing.status("/api/gangs", headers={"Authorization": "Bearer token-of-admin"})
        assert (status, "vision" in text) == (503, False)
    signing.reviews.problem = 0
    assert len(await signing.gangs("admin")) == 3


async def test_a_review_counts_for_a_minute(signing: SignIn) -> None:
    await signing.gangs("admin")
    asked = len(signing.reviews.asked)
    signing.reviews.rights["admin"].clear()
    signing.clock.seconds += ACCESS_PERIOD_S - 1
    assert len(await signing.gangs("admin")) == 3
    assert len(signing.reviews.asked) == asked
    signing.clock.seconds += 2
    assert await signing.gangs("admin") == []


async def test_signing_in_keeps_the_token_in_a_cookie(signing: SignIn) -> None:
    async with signing.browser.post(
        f"{signing.url}/sign-in", data={"token": " token-of-speech\n"}, allow_redirects=False
    ) as answer:
        (cookie,) = answer.cookies.values()
        assert (answer.status, cookie["httponly"], cookie["samesite"]) == (303, True, "Strict")
    assert [gang["name"] for gang in (await signing.answer("gangs"))["page"]["gangs"]] == ["note"]
    async with signing.browser.post(f"{signing.url}/sign-out") as answer:
        assert answer.status == 200
    assert (await signing.status("/api/gangs"))[0] == 401
    for wrong in ("", "token-of-stranger", "a\nb", "ü", "x" * 5000):
        async with signing.browser.post(f"{signing.url}/sign-in", data={"token": wrong}) as answer:
            assert (wrong, answer.status, answer.cookies) == (wrong, 401, {})


async def test_recorded_cycles_are_for_who_sees_everything(signing: SignIn) -> None:
    from phalanx.observe.recording import encode

    signing.feed.recordings.add(encode(recording_of(SCENARIOS / "required-rack-busy.yaml")))
    await signing.gangs("admin")
    (cycle,) = (await signing.answer("decisions"))["page"]["cycles"]
    path = f"/api/recording?cycle={cycle['cycle']}"
    async with signing.browser.get(signing.url + path) as answer:
        assert answer.status == 200
    await signing.gangs("speech")
    assert (await signing.answer("decisions"))["page"]["cycles"] == []
    assert (await signing.status(path))[0] == 404
