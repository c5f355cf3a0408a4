"""`phalanx doctor`: check an installation, and say for each finding what to do."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

from phalanx.cli.doctor.checks.lease import leader
from phalanx.cli.doctor.examination import examine, is_wrong
from phalanx.cli.doctor.finding import CheckFindings, Severity
from phalanx.cli.doctor.installation import Installation
from phalanx.cli.doctor.read import read_installation
from phalanx.cli.exits import Exit
from phalanx.cli.formatting import count
from phalanx.cli.kubeconfig_option import existing_kubeconfig
from phalanx.cli.reading import reader
from phalanx.clock import SystemClock
from phalanx.kube.errors import ApiError
from phalanx.kube.kubeconfig import NoCluster
from phalanx.model.texts import printable
from phalanx.ports import OutcomeUnknown, RequestNotSent

_DOCTOR_CONNECTIONS: Final = 16
"""Connections to the API server: about 150 rights are asked for, each in its own request."""


_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


def doctor(
    *,
    namespace: str = "phalanx-system",
    service_account: str = "phalanx",
    scheduler_name: str = "phalanx",
    output: Annotated[Literal["text", "json"], Parameter(name=["--output", "-o"])] = "text",
    kubeconfig: Path | None = None,
    context: str | None = None,
) -> int:
    """Check an installation with the rights of the kubeconfig's user, and say for each finding what to do.

    It reads and changes nothing. The exit code is 1 if there are errors or warnings.

    Parameters
    ----------
    namespace
        The namespace of the scheduler and of its Lease.
    service_account
        The service account of the scheduler.
    scheduler_name
        The name by which pods choose the scheduler.
    output
        Output format.
    kubeconfig
        The kubeconfig file; default: $KUBECONFIG or ~/.kube/config.
    context
        The context in the kubeconfig; default: the current one.
    """
    existing_kubeconfig(kubeconfig)
    settings = Installation(
        namespace=namespace, service_account=service_account, scheduler_name=scheduler_name
    )
    seen = asyncio.run(_read(settings, kubeconfig, context))
    if seen is None:
        return Exit.FAILED
    results, leads = examine(seen), leader(seen)
    if output == "json":
        print(msgspec.json.format(msgspec.json.encode(as_json(results, leads)), indent=2).decode())
    else:
        show(results, Console(highlight=False, soft_wrap=True), leads)
    return Exit.FAILED if is_wrong(results) else Exit.OK


async def _read(settings: Installation, kubeconfig: Path | None, context: str | None) -> Installation | None:
    try:
        async with reader(kubeconfig=kubeconfig, context=context, connections=_DOCTOR_CONNECTIONS) as source:
            return await read_installation(source, SystemClock(), settings)
    except (NoCluster, ApiError, RequestNotSent, OutcomeUnknown) as error:
        print(f"doctor: {error}", file=sys.stderr)
        return None


def as_json(results: tuple[CheckFindings, ...], leads: str = "") -> dict[str, Any]:
    """Who leads, the names of all checks, and the findings in their order."""
    findings = [
        {"check": result.check, **msgspec.to_builtins(finding)}
        for result in results
        for finding in result.findings
    ]
    return {"leader": leads, "checks": [result.check for result in results], "findings": findings}


def show(results: tuple[CheckFindings, ...], console: Console, leads: str = "") -> None:
    """Print the findings, the check before each, and how many there are."""
    counts = dict.fromkeys(Severity, 0)
    for result in results:
        for finding in result.findings:
            counts[finding.severity] += 1
            style = _STYLES[finding.severity]
            console.print(
                Text.assemble(
                    (finding.severity.value, style), printable(f" {result.check}: {finding.object}")
                )
            )
            console.print(Text(printable(f"  {finding.problem}")))
            console.print(Text(printable(f"  -> {finding.action}")))
    if leads:
        console.print(Text(printable(f"leader: {leads}")))
    found = ", ".join(count(number, severity.value) for severity, number in counts.items() if number)
    console.print(Text(f"{count(len(results), 'check')}: {found or 'nothing is wrong'}"))
