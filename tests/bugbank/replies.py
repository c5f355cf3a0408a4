"""Bugs with an API server that refuses, throttles, or responds too late (faults: 4.4)."""

from typing import Final

from tests.bugbank.bank import Mutant, Played

REPLIES: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="Retry-After is ignored",
        issues=("Volcano #3966",),
        module="phalanx.kube.binder",
        edits={"(pod, pod.backoff.next(at_least=wait))": "(pod, pod.backoff.next())"},
        caught_by=Played("plays_binding:one_pod_keeps_failing"),
    ),
    Mutant(
        name="a failed bind is retried without backoff",
        issues=("Volcano #3966", "Kueue #12002"),
        module="phalanx.kube.flow_control",
        edits={
            "        delay = self._delay * (0.5 + 0.5 * self._jitter())\n": "        delay = 0.001\n",
        },
        caught_by=Played("plays_binding:one_pod_keeps_failing"),
    ),
    Mutant(
        name="a status write that conflicts is never repeated",
        issues=("KAI #676",),
        module="phalanx.kube.status",
        edits={"        self._on_lost(uid)\n": ""},
        caught_by=Played("plays_binding:status_conflict"),
    ),
    Mutant(
        name="a gang whose status write conflicts is not bound",
        issues=("KAI #676",),
        module="phalanx.kube.binder",
        edits={"        asyncio.get_running_loop().call_later(delay, self._put_gang, gang)\n": ""},
        caught_by=Played("plays_binding:status_conflict"),
    ),
    Mutant(
        name="leadership ends when one renewal fails",
        issues=("kubernetes #47899", "CloudNativePG #10918"),
        module="phalanx.kube.leader_election",
        edits={
            '                self._log.warning("lease not renewed", error=str(error))\n': (
                '                raise LostLease("not renewed") from error\n'
            )
        },
        caught_by=Played("plays_leaders:one_renewal_fails"),
    ),
    Mutant(
        name="a renewal of unknown outcome is retried with the old version",
        issues=("kubernetes #47899",),
        module="phalanx.kube.leader_election",
        edits={
            '                self._log.warning("lease not renewed", error=str(error))\n'
            '                self._version = ""\n': (
                '                self._log.warning("lease not renewed", error=str(error))\n'
            )
        },
        caught_by=Played("plays_leaders:one_renewal_fails"),
    ),
    Mutant(
        name="the first page counts as the complete list",
        issues=("kubernetes-client/python #801", "Volcano #1052"),
        module="phalanx.kube.client",
        edits={"            if not token:\n": "            if token is not None:\n"},
        caught_by=Played("plays_views:lists_have_pages"),
    ),
    Mutant(
        name="an expired token is never renewed",
        issues=("KAI #1817",),
        module="phalanx.kube.transport",
        edits={
            "            return response\n        await self._credential.renew(refused=used)\n": (
                "            return response\n"
            )
        },
        caught_by=Played("plays_http:token_has_expired"),
    ),
    Mutant(
        name="an expired token of a watch is never renewed",
        issues=("KAI #1817",),
        module="phalanx.kube.transport",
        edits={
            "            if answer.status == _UNAUTHORIZED:\n"
            "                await self._credential.renew(refused=used)\n": ""
        },
        caught_by=Played("plays_http:token_of_a_watch_has_expired"),
    ),
    Mutant(
        name="a connection that breaks after sending counts as not sent",
        issues=("kubernetes #101877", "YuniKorn-3123"),
        module="phalanx.kube.transport",
        edits={
            """raise OutcomeUnknown(f"{method} {path}: """: """raise RequestNotSent(f"{method} {path}: """
        },
        caught_by=Played("plays_http:connection_breaks"),
    ),
)
