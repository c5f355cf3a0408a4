"""For each alert: samples of its fault, when it must not fire yet, when it must, and what it says then."""

from typing import Final

from msgspec import Struct

from tests.deploy.manifests import Document
from tests.monitoring.programs import rules

_JOB: Final = {"job": "phalanx", "namespace": "phalanx-system"}
_OURS: Final = 'job="phalanx",namespace="phalanx-system"'


class AlertCase(Struct, frozen=True, kw_only=True):
    """Series have one sample each half minute, in promtool's notation; `{}` stands for job and namespace."""

    alert: str
    series: dict[str, str]
    silent: str
    fires: str
    labels: dict[str, str] = {}
    """Beside job, namespace and severity."""
    summary: str = ""
    """If it is not the text of the rule as it is."""
    is_absent: bool = False
    """Whether the alert is about a target that is gone, so that job and namespace are unknown."""

    def as_test(self) -> Document:
        """The case in promtool's form."""
        (rule,) = [rule for rule in rules() if rule["alert"] == self.alert]
        annotations = {**rule["annotations"], **({"summary": self.summary} if self.summary else {})}
        labels = {**({} if self.is_absent else _JOB), **rule["labels"], **self.labels}
        named = {name.replace("{}", _OURS): values for name, values in self.series.items()}
        return {
            "name": f"{self.alert} at {self.fires}",
            "interval": "30s",
            "input_series": [{"series": name, "values": values} for name, values in named.items()],
            "alert_rule_test": [
                {"eval_time": self.silent, "alertname": self.alert, "exp_alerts": []},
                {
                    "eval_time": self.fires,
                    "alertname": self.alert,
                    "exp_alerts": [{"exp_labels": labels, "exp_annotations": annotations}],
                },
            ],
        }


def _histogram(name: str, slow: str) -> dict[str, str]:
    """Six observations a minute: fast ones for ten minutes, then as slow as the bucket `slow`."""
    return {
        f'{name}_bucket{{{{}},le="0.1"}}': "0+3x20 60x60",
        f'{name}_bucket{{{{}},le="{slow}"}}': "0+3x80",
        f'{name}_bucket{{{{}},le="+Inf"}}': "0+3x80",
    }


CASES: Final = (
    AlertCase(
        alert="PhalanxNoLeader",
        series={'phalanx_leader{{},instance="a"}': "1x10 0x30", 'phalanx_leader{{},instance="b"}': "0x40"},
        silent="7m",
        fires="8m",
    ),
    AlertCase(
        alert="PhalanxNoLeader",
        series={'phalanx_leader{{},instance="a"}': "1x10 stale"},
        silent="7m",
        fires="8m",
        is_absent=True,
    ),
    AlertCase(
        alert="PhalanxTwoLeaders",
        series={'phalanx_leader{{},instance="a"}': "1x40", 'phalanx_leader{{},instance="b"}': "0x10 1x30"},
        silent="6m",
        fires="7m",
        summary="2 replicas of Phalanx consider themselves leader.",
    ),
    AlertCase(
        alert="PhalanxWatchOutdated",
        series={
            'phalanx_watch_last_event_timestamp_seconds{{},instance="a",kind="Pod"}': "0+30x10 300x30",
            'phalanx_watch_last_event_timestamp_seconds{{},instance="a",kind="Node"}': "0+30x40",
        },
        silent="8m",
        fires="10m",
        labels={"instance": "a", "kind": "Pod"},
        summary="a has heard nothing about Pod objects for 5m 0s.",
    ),
    AlertCase(
        alert="PhalanxBreakerOpen",
        series={'phalanx_breaker_open{{},instance="a"}': "0x10 1x10"},
        silent="5m",
        fires="6m",
    ),
    AlertCase(
        alert="PhalanxManyFaultyNodes",
        series={
            'phalanx_faulty_nodes{{},instance="a"}': "10x10 11x60",
            'phalanx_nodes{{},instance="a",state="ready"}': "80x70",
            'phalanx_nodes{{},instance="a",state="not-ready"}': "20x70",
        },
        silent="20m",
        fires="21m",
        summary="11 nodes have a fault, more than a tenth of all.",
    ),
    AlertCase(
        alert="PhalanxGuaranteeUnmet",
        series={
            'phalanx_queue_pending_gangs{{},queue="a"}': "2x80",
            'phalanx_queue_allocated{{},queue="a",resource="gpu"}': "4x80",
            'phalanx_queue_guarantee{{},queue="a",resource="gpu"}': "8x80",
            'phalanx_queue_guarantee{{},queue="a",resource="cpu"}': "0x80",
            'phalanx_queue_pending_gangs{{},queue="full"}': "2x80",
            'phalanx_queue_allocated{{},queue="full",resource="gpu"}': "8x80",
            'phalanx_queue_guarantee{{},queue="full",resource="gpu"}': "8x80",
            'phalanx_queue_allocated{{},queue="full",resource="cpu"}': "1x80",
            'phalanx_queue_guarantee{{},queue="full",resource="cpu"}': "2x80",
            'phalanx_queue_pending_gangs{{},queue="without"}': "2x80",
        },
        silent="29m",
        fires="31m",
        labels={"queue": "a"},
        summary="Gangs of queue a wait although the queue uses less than its guarantee.",
    ),
    AlertCase(
        alert="PhalanxGangsDegraded",
        series={
            'phalanx_queue_degraded_gangs{{},queue="a"}': "0x10 2x80",
            'phalanx_queue_degraded_gangs{{},queue="b"}': "1x19 0x80",
        },
        silent="14m",
        fires="16m",
        labels={"queue": "a"},
        summary="Gangs of queue a run with fewer members than their minimum: 2.",
    ),
    AlertCase(
        alert="PhalanxBindsRefused",
        series={
            'phalanx_binds_total{{},outcome="refused"}': "0x10 1+1x80",
            'phalanx_binds_total{{},outcome="bound"}': "0+5x90",
        },
        silent="34m",
        fires="37m",
    ),
    AlertCase(
        alert="PhalanxWritesFail",
        series={
            'phalanx_background_writes_total{{},type="status",outcome="refused"}': "0x10 1+3x80",
            'phalanx_background_writes_total{{},type="status",outcome="written"}': "0+2x90",
            'phalanx_background_writes_total{{},type="event",outcome="refused"}': "0+1x90",
            'phalanx_background_writes_total{{},type="event",outcome="written"}': "0+2x90",
        },
        silent="25m",
        fires="29m",
        labels={"type": "status"},
        summary="More than half of the writes of type status fail.",
    ),
    AlertCase(
        alert="PhalanxLeaseRenewalSlow",
        series=_histogram("phalanx_lease_renewal_delay_seconds", "10"),
        silent="10m",
        fires="25m",
        summary="The Lease is renewed 9.901s late. Leadership may soon be lost.",
    ),
    AlertCase(
        alert="PhalanxCyclesSlow",
        series=_histogram("phalanx_cycle_duration_seconds", "30"),
        silent="12m",
        fires="35m",
        summary="One in ten scheduling cycles takes longer than 27.01s.",
    ),
    AlertCase(
        alert="PhalanxSchedulerErrors",
        series={'phalanx_cycle_errors_total{{},instance="a"}': "0x10 1x20"},
        silent="5m",
        fires="6m",
    ),
    AlertCase(
        alert="PhalanxConfigRefused",
        series={'phalanx_config_last_reload_successful{{},instance="a"}': "1x10 0x20"},
        silent="6m",
        fires="7m",
        labels={"instance": "a"},
        summary="a refused the configuration file; the old configuration is in effect.",
    ),
    AlertCase(
        alert="PhalanxUnreadableObjects",
        series={'phalanx_unreadable_objects_total{{},instance="a",kind="Node"}': "_x10 1x20"},
        silent="4m",
        fires="6m",
        labels={"kind": "Node"},
        summary="Objects of kind Node cannot be read and are ignored.",
    ),
    AlertCase(
        alert="PhalanxLimitReached",
        series={'phalanx_limit_hits_total{{},instance="a",limit="EVENTS_WAITING_MAX"}': "_x10 1x20"},
        silent="4m",
        fires="6m",
        labels={"limit": "EVENTS_WAITING_MAX"},
        summary="The bound EVENTS_WAITING_MAX of the scheduler was reached.",
    ),
)
