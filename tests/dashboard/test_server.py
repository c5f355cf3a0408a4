"""Who is let in, what every answer carries, and the live stream."""

import asyncio
import signal
import subprocess
import sys
import urllib.request
from contextlib import aclosing
from pathlib import Path

import aiohttp
import pytest
from phalanx.cli.app import main
from phalanx.observe.recording import encode
from phalanx.web.server import debug_app, serving
from phalanx_dashboard import server
from phalanx_dashboard.facts import Facts
from phalanx_dashboard.pages.topology import topology_map

from tests.cli.test_recordings import SCENARIOS, recording_of
from tests.cli.verbs.conftest import World, gpu_node, gpu_pod
from tests.dashboard.conftest import SECRET, Site

PATHS = (
    *("/", "/assets/app.js", "/assets/vendor/preact.mjs", "/assets/none.js"),
    *("/api/overview", "/api/gangs?offset=x", "/api/gang?namespace=a&kind=b&name=c", "/api/none", "/none"),
)


async def test_only_the_link_opens_the_pages(site: Site) -> None:
    async with aiohttp.ClientSession() as stranger:
        for path in ("/api/overview", "/api/live", "/api/recording?cycle=1"):
            async with stranger.get(site.url + path) as answer:
                assert answer.status == 401
                assert "vision" not in await answer.text()
        for wrong in ("", "x", SECRET[:-1], SECRET + "x", "ü"):
            async with stranger.get(f"{site.url}/", params={"secret": wrong}) as answer:
                assert (answer.status, answer.cookies) == (200, {})
        async with stranger.get(f"{site.url}/?secret={SECRET}", allow_redirects=False) as answer:
            (cookie,) = answer.cookies.values()
            assert (answer.status, answer.headers["Location"]) == (303, "/")
            assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "Strict", "/")


async def test_a_page_is_made_once_for_a_reading(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def counted(facts: Facts, *, name: str, resource: str) -> object:
        made.append(resource)
        return topology_map(facts, name=name, resource=resource)

    monkeypatch.setattr(server, "topology_map", counted)
    pages = await asyncio.gather(*(site.page("topology") for _ in range(3)))
    assert (pages[0], made) == (pages[2], [""])
    await site.page("topology", resource="cpu")
    assert made == ["", "cpu"]
    site.world.create(gpu_node("fresh", rack="a"))
    await site.feed.read()
    assert (await site.page("topology"))["domains"][0]["nodeCount"] == pages[0]["domains"][0]["nodeCount"] + 1
    assert made == ["", "cpu", ""]


async def test_a_page_of_another_site_cannot_reach_the_server_by_a_name_of_its_own(site: Site) -> None:
    for host in ("evil.example", f"evil.example:{site.port}", "127.0.0.1", f"127.0.0.1:{site.port + 1}"):
        status, text = await site.status("/api/overview", headers={"Host": host})
        assert (status, "vision" in text) == (421, False)
    assert (await site.status("/api/overview", headers={"Host": f"localhost:{site.port}"}))[0] == 200


async def test_every_answer_forbids_foreign_scripts_and_frames(site: Site) -> None:
    for path in PATHS:
        async with site.browser.get(site.url + path) as answer:
            policy = dict(
                part.strip().split(" ", 1) for part in answer.headers["Content-Security-Policy"].split(";")
            )
            assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
            assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.headers["Referrer-Policy"] == "no-referrer"


async def test_bad_requests_are_refused(site: Site) -> None:
    for path, wanted in (
        ("/api/gangs?offset=x", 400),
        ("/api/gangs?offset=-1", 400),
        (f"/api/gangs?offset={'9' * 5000}", 400),
        ("/api/gang?namespace=vision", 400),
        ("/api/gang?namespace=vision&kind=PodGroup&name=none", 404),
        ("/api/topology?topology=none", 404),
        ("/api/recording?cycle=1", 404),
        ("/assets/../server.py", 404),
        ("/assets/%2e%2e/server.py", 404),
        ("/assets/vendor/sources.json", 404),
    ):
        assert (path, (await site.status(path))[0]) == (path, wanted)


async def test_the_pages_change_nothing(site: Site) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        for path in ("/", "/api/overview", "/api/live"):
            async with site.browser.request(method, site.url + path) as answer:
                assert answer.status == 405


async def test_before_the_first_reading(unread: Site) -> None:
    assert await unread.status("/api/overview") == (503, "the cluster is being read\n")


async def test_an_answer_that_the_browser_has_is_not_sent_again(site: Site) -> None:
    async with site.browser.get(f"{site.url}/api/gangs") as answer:
        tag = answer.headers["ETag"]
    assert await site.status("/api/gangs", headers={"If-None-Match": tag}) == (304, "")
    site.world.create(gpu_pod("new", space="vision"))
    await site.feed.read()
    assert (await site.status("/api/gangs", headers={"If-None-Match": tag}))[0] == 200


async def test_the_stream_says_when_there_is_a_new_reading(unread: Site) -> None:
    reading = asyncio.create_task(unread.feed.run())
    async with aclosing(unread.live()) as events:
        async for event in events:
            if event["read"]:
                break
        first = event["number"]
        unread.world.create(gpu_pod("new", space="vision"))
        async for event in events:  # noqa: B007
            page = await unread.page("gangs", text="vision/new")
            if page["matching"]:
                break
        assert event["number"] > first
        unread.world.server.forbidden = ("/api", "/apis")
        async for _ in events:
            answer = await unread.answer("gangs")
            if answer["notes"]:
                break
    assert answer["page"]["total"] == 0
    reading.cancel()


async def test_the_last_good_reading_stays_while_the_server_does_not_answer(site: Site) -> None:
    kubeconfig = site.world.kubeconfig
    text = kubeconfig.read_text()
    await asyncio.to_thread(kubeconfig.write_text, text.replace('"token":"verbs"', '"token":"wrong"'))
    site.feed._reader.close()
    await site.feed.read()
    assert "401" in site.feed.problem
    assert (await site.page("overview"))["gangs"] == {"Running": 2, "Waiting": 1}
    async with aclosing(site.live()) as events:
        event = await anext(events)
    assert (event["read"], event["problem"]) == (True, site.feed.problem)
    await asyncio.to_thread(kubeconfig.write_text, text)
    await site.feed.read()
    assert site.feed.problem == ""


async def test_cycles_of_the_scheduler_can_be_downloaded(site: Site) -> None:
    content = encode(recording_of(SCENARIOS / "required-rack-busy.yaml"))

    async def last() -> bytes:
        return content

    async def none() -> None:
        return None

    recordings = site.feed.recordings
    async with serving(
        debug_app(last=last, last_error=none, last_inconclusive=none), host="127.0.0.1", port=0
    ) as port:
        recordings.url = f"http://127.0.0.1:{port}"
        await site.feed.read()
        await site.feed.read()
    (cycle,) = (await site.page("decisions"))["cycles"]
    async with site.browser.get(f"{site.url}/api/recording", params={"cycle": cycle["cycle"]}) as answer:
        assert await answer.read() == content
        assert answer.headers["Content-Disposition"].startswith("attachment")
    await site.feed.read()
    page = await site.page("decisions")
    assert page["problem"].startswith(recordings.url)
    assert len(page["cycles"]) == 1


def test_the_command_prints_a_link_that_works_and_ends_on_a_signal(tenants: World) -> None:
    """In a process of its own. Its API server is in this one, so nothing is read yet."""
    program = str(Path(sys.executable).parent / "phalanx")
    arguments = [program, "dashboard", "--no-browser", "--kubeconfig", str(tenants.kubeconfig)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        link = process.stdout.readline().strip()
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor()
        )
        with opener.open(link) as answer:
            assert b"/assets/app.js" in answer.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("--listen", "0.0.0.0:0"),
        ("--listen", "0.0.0.0:0", "--sign-in"),
        ("--listen", ":0", "--sign-in"),
        ("--listen", "example.com:1", "--sign-in"),
        ("--listen", "127.0.0.1"),
        ("--tls-certificate", "none.crt", "--sign-in"),
        ("--tls-certificate", "none.crt", "--tls-key", "none.key", "--sign-in"),
        ("--tls-certificate", "none.crt", "--tls-key", "none.key"),
        ("--interval", "0"),
        ("--scheduler", "file:///etc/passwd"),
        ("--kubeconfig", "/none"),
    ],
)
def test_what_would_show_the_pages_to_others_is_refused(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dashboard", "--no-browser", *arguments]) == 2
    assert "expected" in capsys.readouterr().err
