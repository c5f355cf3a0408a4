"""Bugs of leader election: two writers, no leader, epochs that do not increase (faults: 4.5)."""

from typing import Final

from tests.bugbank.bank import Mutant, Played

LEADERS: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="writes are sent after the Lease has expired",
        issues=("kubernetes #23731", "client-go leaderelection does not fence"),
        module="phalanx.kube.leader_election",
        edits={
            "return self.leading.is_set() and self.remaining() >= self._times.write_margin": (
                "return self.leading.is_set()"
            )
        },
        caught_by=Played("plays_leaders:leader_freezes"),
    ),
    Mutant(
        name="a leader writes beyond the duration of its Lease",
        issues=("kubernetes #67651",),
        module="phalanx.kube.leader_election",
        edits={
            "started + self._times.renew_deadline": "started + 2 * self._times.duration",
        },
        caught_by=Played("plays_leaders:renewals_are_lost"),
    ),
    Mutant(
        name="the renewal deadline counts from the response",
        issues=("kubernetes #67651", "client-go leaderelection does not fence"),
        module="phalanx.kube.leader_election",
        edits={
            "started + self._times.renew_deadline": "self._clock.monotonic() + self._times.renew_deadline",
        },
        caught_by=Played("plays_leaders:renewals_are_slow"),
    ),
    Mutant(
        name="the expiry of the Lease is measured by the wall clock",
        issues=("kubernetes #125761",),
        module="phalanx.kube.leader_election",
        edits={
            "            self._seen, self._seen_at = spec, self._clock.monotonic()\n": (
                "            self._seen, self._seen_at = spec, self._clock.now_ms() / 1000\n"
            ),
            "        return self._clock.monotonic() >= self._seen_at + duration": (
                "        return self._clock.now_ms() / 1000 >= self._seen_at + duration"
            ),
        },
        caught_by=Played("plays_leaders:clock_of_the_follower_jumps"),
    ),
    Mutant(
        name="the renewal deadline is measured by the wall clock",
        issues=("kubernetes #125761",),
        module="phalanx.kube.leader_election",
        edits={
            "        return self._deadline - self._clock.monotonic()": (
                "        return self._deadline - self._clock.now_ms() / 1000 + 1_767_225_600"
            ),
        },
        caught_by=Played("plays_leaders:clock_of_the_leader_jumps_back"),
    ),
    Mutant(
        name="a Lease that another replica holds is acquired",
        issues=("kubernetes #67651", "cilium #42920"),
        module="phalanx.kube.leader_election",
        edits={"if lease.spec.holder_identity and not self._has_expired(lease.spec):": "if False:"},
        caught_by=Played("plays_leaders:both_replicas_start_at_once"),
    ),
    Mutant(
        name="a Lease is acquired without a resourceVersion",
        issues=("kubernetes #67651", "cilium #42920"),
        module="phalanx.kube.leader_election",
        edits={
            'body = _encode({"metadata": {"resourceVersion": version}, "spec": spec})\n        timeout': (
                'body = _encode({"metadata": {}, "spec": spec})\n        timeout'
            )
        },
        caught_by=Played("plays_leaders:both_replicas_start_at_once"),
    ),
    Mutant(
        name="a leader that stops does not release its Lease",
        issues=("kubernetes #23731",),
        module="phalanx.kube.leader_election",
        edits={
            "        if not self._version:\n            return\n        ver": "        return\n        ver"
        },
        caught_by=Played("plays_leaders:leader_stops"),
    ),
    Mutant(
        name="a leader that lost its Lease keeps leading",
        issues=("kubernetes #23731", "Kueue #14039"),
        module="phalanx.kube.leader_election",
        edits={
            "        if lease.spec.holder_identity != self._identity or "
            "lease.spec.lease_transitions != self.epoch:\n": "        if False:\n"
        },
        caught_by=Played("plays_leaders:lease_is_taken_by_hand"),
    ),
    Mutant(
        name="leader epochs do not increase",
        issues=("cilium #42920",),
        module="phalanx.kube.leader_election",
        edits={"(lease.spec.lease_transitions or 0) + 1": "(lease.spec.lease_transitions or 0)"},
        caught_by=Played("plays_binding:placement_is_written_first"),
    ),
    Mutant(
        name="the leader epoch is not written with a placement",
        issues=("cilium #42920", "Kueue #4653"),
        module="phalanx.kube.binding",
        edits={', "placementEpoch": decided_by}': "}"},
        caught_by=Played("plays_binding:placement_is_written_first"),
    ),
    Mutant(
        name="a gang is bound before its placement is written",
        issues=("Kueue #5276",),
        module="phalanx.kube.bind_jobs",
        edits={
            "        self.placement_written = pod_group is None and placement.record is None\n": (
                "        self.placement_written = True\n"
            )
        },
        caught_by=Played("plays_binding:placement_is_written_first"),
    ),
    Mutant(
        name="a Job is bound before its record is stored",
        issues=("Kueue #5276",),
        module="phalanx.kube.record_store",
        edits={"if gang not in self._unsent and gang not in self._sending:": "if gang:"},
        caught_by=Played("plays_binding:record_is_stored_first"),
    ),
)
