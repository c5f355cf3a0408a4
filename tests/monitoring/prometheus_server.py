"""A real Prometheus on loopback, with the rules of deploy/monitoring in a form that does not take hours."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
import yaml
from phalanx_controlplane import run_folder
from phalanx_controlplane.process import Process

from tests.deploy.manifests import Document
from tests.monitoring.programs import ALERTS, PROMETHEUS

PERIOD_S: Final = 1
"""Between two scrapes, and two evaluations of the rules."""
WAIT_S: Final = 180.0
"""Long, because machines may be busy."""


def shortened(rules: str) -> str:
    """The rules with short durations. What they compare stays the same."""
    rules = re.sub(r"for: \d+m", "for: 2s", rules)
    rules = re.sub(r"\[(5|10)m\]", "[30s]", rules)
    return rules.replace("[1h]", "[1m]").replace("offset 1h", "offset 1m")


class PrometheusServer:
    """What a user of its API sees."""

    def __init__(self, url: str, folder: Path, session: aiohttp.ClientSession) -> None:
        self._url = url
        self._folder = folder
        self._session = session
        self._targets: dict[str, str] = {}

    def scrape(self, name: str, address: str | None) -> None:
        """Scrape this replica from now on, or no more."""
        self._targets.pop(name, None)
        if address is not None:
            self._targets[name] = address
        write_targets(self._folder, self._targets)

    async def values(self, expression: str) -> list[float]:
        """The values of a query now, without those that are no number."""
        result = (await self._get("/api/v1/query", query=expression))["result"]
        numbers = [float(each["value"][1]) for each in result]
        return [number for number in numbers if number == number]

    async def firing(self) -> frozenset[str]:
        """Names of the alerts that fire now."""
        alerts = (await self._get("/api/v1/alerts"))["alerts"]
        return frozenset(each["labels"]["alertname"] for each in alerts if each["state"] == "firing")

    async def until_firing(self, alert: str, *, within: float = WAIT_S) -> None:
        """Wait until an alert fires."""
        async with asyncio.timeout(within):
            while alert not in await self.firing():
                await asyncio.sleep(PERIOD_S / 2)

    async def until_value(self, expression: str, *, within: float = WAIT_S) -> None:
        """Wait until a query has a value."""
        async with asyncio.timeout(within):
            while not await self.values(expression):
                await asyncio.sleep(PERIOD_S / 2)

    async def _get(self, path: str, **query: str) -> Any:
        async with self._session.get(self._url + path, params=query) as answer:
            body = await answer.json()
        assert body["status"] == "success", body
        return body["data"]


@asynccontextmanager
async def prometheus(folder: Path) -> AsyncIterator[PrometheusServer]:
    """Run it. The folder gets its configuration, data and log."""
    (folder / "alerts.yaml").write_text(shortened(ALERTS.read_text()))
    write_targets(folder, {})
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(_config(folder)))
    with run_folder.reserve(1) as lease:
        address = f"127.0.0.1:{lease.ports[0]}"
        process = Process(
            name="prometheus",
            command=[
                str(PROMETHEUS.built().program),
                f"--config.file={folder / 'prometheus.yaml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={address}",
            ],
            log=folder / "prometheus.log",
            home=folder,
        )
        try:
            await until_ready(process, f"http://{address}/-/ready")
            async with aiohttp.ClientSession() as session:
                yield PrometheusServer(f"http://{address}", folder, session)
        finally:
            await process.kill()


def write_targets(folder: Path, targets: Mapping[str, str]) -> None:
    """The file of targets. Prometheus never reads a part of it."""
    groups = [{"targets": [target], "labels": {"replica": name}} for name, target in targets.items()]
    partial = folder / "targets.partial"
    partial.write_text(json.dumps(groups))
    partial.rename(folder / "targets.json")


def _config(folder: Path) -> Document:
    every = f"{PERIOD_S}s"
    discovery = {"files": [str(folder / "targets.json")], "refresh_interval": every}
    scrape = {"job_name": "phalanx", "scrape_interval": every, "file_sd_configs": [discovery]}
    return {
        "global": {"evaluation_interval": every},
        "rule_files": [str(folder / "alerts.yaml")],
        "scrape_configs": [{**scrape, "scrape_timeout": every}],
    }


async def until_ready(process: Process, url: str, *, code: int = 200) -> None:
    """Wait until the process answers with this code."""
    async with asyncio.timeout(WAIT_S), aiohttp.ClientSession() as session:
        while True:
            assert process.running, process.tail(30)
            try:
                async with session.get(url) as answer:
                    if answer.status == code:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.1)
