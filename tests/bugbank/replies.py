"""Bugs in the face of an API server that refuses, throttles, or answers too late (faults: 4.4)."""

from typing import Final

from tests.bugbank.bank import Mutant, Played

REPLIES: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="a server that asks for a pause is asked again at once",
        issues=("Volcano #3966",),
        module="phalanx.kube.binder",
        edits={"(pod, pod.backoff.next(at_least=wait))": "(pod, pod.backoff.next())"},
        caught_by=Played("plays_binding:one_in_trouble"),
    ),
    Mutant(
        name="a bind that fails is sent again without a pause",
        issues=("Volcano #3966", "Kueue #12002"),
        module="phalanx.kube.flow_control",
        edits={
            "        delay = self._delay * (0.5 + 0.5 * self._jitter())\n": "        delay = 0.001\n",
        },
        caught_by=Played("plays_binding:one_in_trouble"),
    ),
    Mutant(
        name="a status that met a conflict is never written",
        issues=("KAI #676",),
        module="phalanx.kube.status",
        edits={"        self._on_lost(uid)\n": ""},
        caught_by=Played("plays_binding:status_conflict"),
    ),
    Mutant(
        name="a gang whose status met a conflict is not bound",
        issues=("KAI #676",),
        module="phalanx.kube.binder",
        edits={"            self._start_later(gang, error)\n": ""},
        caught_by=Played("plays_binding:status_conflict"),
    ),
    Mutant(
        name="leadership is given up when one renewal fails",
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
        name="a renewal of unknown outcome is sent again with the old version",
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
        name="the first page is taken for the whole list",
        issues=("kubernetes-client/python #801", "Volcano #1052"),
        module="phalanx.kube.client",
        edits={"            if not token:\n": "            if token is not None:\n"},
        caught_by=Played("plays_views:lists_have_pages"),
    ),
    Mutant(
        name="a token that has expired is used for ever",
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
        name="a watch whose token has expired is tried with it for ever",
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
