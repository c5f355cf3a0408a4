"""A real scheduler sends the trace of a gang to a real OpenTelemetry Collector, which sends it on.

`make monitoring` runs it. The Collector is a program of its published modules, with its receiver of OTLP over
HTTP and its exporter of the same.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from phalanx_controlplane import run_folder
from phalanx_controlplane.process import Process
from phalanx_simulator.embedded import manifests

from tests.monitoring.programs import COLLECTOR
from tests.monitoring.prometheus_server import WAIT_S, until_ready
from tests.monitoring.site import NODES, QUEUES, scheduler, site
from tests.observe.collector import attributes, receiving

pytestmark = pytest.mark.monitoring


@asynccontextmanager
async def collector(folder: Path, exports_to: str) -> AsyncIterator[str]:
    """Run the Collector. The value is the endpoint of its receiver."""
    with run_folder.reserve(1) as lease:
        address = f"127.0.0.1:{lease.ports[0]}"
        config = {
            "receivers": {"otlp": {"protocols": {"http": {"endpoint": address}}}},
            "exporters": {"otlphttp": {"traces_endpoint": exports_to, "compression": "none"}},
            "service": {
                "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["otlphttp"]}},
                "telemetry": {"metrics": {"level": "none"}},
            },
        }
        file = folder / "collector.yaml"
        file.write_text(yaml.safe_dump(config))
        process = Process(
            name="collector",
            command=[str(COLLECTOR.built().program), "--config", str(file)],
            log=folder / "collector.log",
            home=folder,
        )
        try:
            endpoint = f"http://{address}/v1/traces"
            await until_ready(process, endpoint, code=405)  # it takes POST only
            yield endpoint
        finally:
            await process.kill()


async def test_the_trace_of_a_gang_passes_a_real_collector(tmp_path: Path) -> None:
    with receiving() as received:
        async with collector(tmp_path, received.url) as endpoint, site(tmp_path) as (made, _):
            made.config.write_text(f"tracing: {{endpoint: '{endpoint}'}}\n")
            async with scheduler(made, "one"):
                made.ask("POST", QUEUES, manifests.queue("research"))
                made.ask("POST", NODES, manifests.node("n0"))
                made.add_gang("train", 3, queue="research")
                async with asyncio.timeout(WAIT_S):
                    while not received.spans():
                        await asyncio.sleep(0.2)
    spans = {span.name: span for span in received.spans()}
    gang = spans["gang start"]
    assert attributes(gang)["phalanx.gang"] == "train"
    assert attributes(gang)["phalanx.queue"] == "research"
    assert attributes(gang)["phalanx.pods"] == 3
    assert [event.name for event in gang.events] == ["decided", "bound"]
    assert spans["bind"].parent_span_id == gang.span_id
    assert spans["bind"].trace_id == gang.trace_id
    assert gang.start_time_unix_nano < spans["bind"].start_time_unix_nano <= gang.end_time_unix_nano
