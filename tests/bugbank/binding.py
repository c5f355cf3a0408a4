"""Bugs of binding: assumptions, unknown outcomes, checks before a bind is sent (faults: 4.1)."""

from typing import Final

from tests.bugbank.bank import Drilled, Mutant, Played

BINDING: Final[tuple[Mutant, ...]] = (
    Mutant(
        name="a bind of unknown outcome counts as not applied",
        issues=("kubernetes #26043", "kubernetes #101877"),
        module="phalanx.kube.binder",
        edits={
            "        except PERHAPS_APPLIED as error:\n            self._retry(pod, error)": (
                "        except PERHAPS_APPLIED as error:\n"
                "            self._finish(pod, BindAborted(bind, str(error)))"
            )
        },
        caught_by=Played("named:kubernetes_106361"),
    ),
    Mutant(
        name="an assumption ends when the API does not respond",
        issues=("kubernetes #106361",),
        module="phalanx.kube.binder",
        edits={
            '            pod.gang.log.info("reading the pod failed, retrying", '
            "pod=pod.name, error=str(error))\n": (
                "            pod.attempts += 1\n"
                "            if pod.attempts > 3:\n"
                '                self._finish(pod, BindRefused(bind, "GaveUp", str(error)))\n'
                "                return\n"
            )
        },
        caught_by=Played("named:kubernetes_106361"),
    ),
    Mutant(
        name="a bind is given up although an attempt may have been applied",
        issues=("kubernetes #106361", "YuniKorn-3123"),
        module="phalanx.kube.binder",
        edits={
            "pod.unknown = True  # until an answer": "pod.unknown = False  # until an answer",
        },
        caught_by=Played("named:kubernetes_106361"),
    ),
    Mutant(
        name="binds without the pod's UID",
        issues=("kubernetes #28883",),
        module="phalanx.kube.client",
        edits={'"uid": bind.pod}': '"uid": ""}'},
        caught_by=Drilled("views", "bind", most=1),
    ),
    Mutant(
        name="a pod that cannot be bound stays assumed for ever",
        issues=("kubernetes #49314", "scheduler-plugins #713"),
        module="phalanx.service.dispatcher",
        edits={"        self._state.apply(Forgotten(bind.pod, backoff))\n": ""},
        caught_by=Played("named:kai_2075"),
    ),
    Mutant(
        name="assumed pods use nothing",
        issues=("kubernetes #37232",),
        module="phalanx.cache.cache",
        edits={
            "    if pod is None or pod.node is None or not pod.holds_node:\n": (
                "    if pod is None or pod.node is None or pod.assumed or not pod.holds_node:\n"
            )
        },
        caught_by=Played("plays_binding:slow_binds"),
    ),
    Mutant(
        name="assumed pods use nothing of their queue",
        issues=("Kueue #10518",),
        module="phalanx.cache.usage",
        edits={
            "                if pod.node is not None and pod.scheduler_name": (
                "                if pod.node is not None and not pod.assumed and pod.scheduler_name"
            )
        },
        caught_by=Played("plays_binding:slow_binds_under_a_limit"),
    ),
    Mutant(
        name="an update of a pod ends its assumption",
        issues=("kubernetes #28883", "kubernetes #49314"),
        module="phalanx.cache.pods",
        edits={
            "        self._uids[key] = pod.uid\n        self._put(pod, log)": (
                "        self._uids[key] = pod.uid\n"
                "        self._assumed.pop(pod.uid, None)\n"
                "        self._put(pod, log)"
            )
        },
        caught_by=Played("plays_binding:slow_binds"),
    ),
    Mutant(
        name="a refused bind counts as applied",
        issues=("Volcano #4383",),
        module="phalanx.kube.binder",
        edits={
            "            pod.refusal = error\n            await self._read(pod)\n": (
                "            self._finish(pod, Bound(bind))\n"
            )
        },
        caught_by=Played("plays_binding:all_binds_refused"),
    ),
    Mutant(
        name="a gang's status says Running before its pods are bound",
        issues=("Volcano #4383",),
        module="phalanx.model.gangs",
        edits={
            "[pod for pod in self.counted if not pod.assumed and not pod.deleting]": "self.counted",
        },
        caught_by=Played("plays_binding:slow_to_bind"),
    ),
    Mutant(
        name="the reason of a failed bind is not reported",
        issues=("Volcano #3547",),
        module="phalanx.service.dispatcher",
        edits={'self._forget(bind, f"{reason}: {message}", failed_on)': 'self._forget(bind, "", failed_on)'},
        caught_by=Played("named:kai_2075"),
    ),
    Mutant(
        name="a rejected bind is tried in every cycle",
        issues=("KAI #2075",),
        module="phalanx.service.dispatcher",
        edits={"Forgotten(bind.pod, backoff)": "Forgotten(bind.pod)"},
        caught_by=Played("named:kai_2075"),
    ),
    Mutant(
        name="no cycle runs when the backoff of a failed bind ends",
        issues=("kubernetes #87850", "KAI #847"),
        module="phalanx_plugins.failed_binds",
        edits={"until=min(end for end, _ in holds if end > now)": "until=None"},
        caught_by=Played("named:kai_2075"),
    ),
    Mutant(
        name="the backoff of one bind delays all binds",
        issues=("Volcano #4692", "Volcano #4693"),
        module="phalanx.kube.binder",
        edits={
            "        asyncio.get_running_loop().call_later(delay, self._put, pod)\n": (
                "        self._rate_limiter.pause(delay)\n        self._put(pod)\n"
            )
        },
        caught_by=Played("plays_binding:one_pod_keeps_failing"),
    ),
    Mutant(
        name="throttling of one pod delays all binds",
        issues=("Volcano #4692", "KAI #2075"),
        module="phalanx.kube.binder",
        edits={"        if self._throttled not in (None, pod.bind.pod):\n": "        if True:\n"},
        caught_by=Played("plays_binding:one_pod_keeps_failing"),
    ),
    Mutant(
        name="pods are not checked again before they are bound",
        issues=("YuniKorn-1622",),
        module="phalanx.service.write_checks",
        edits={
            "        if not pod.assumed or pod.node != bind.node:\n": "        if False:\n",
            "        if pod.deleting:\n": "        if False:\n",
        },
        caught_by=Played("plays_binding:deleted_before_its_bind"),
    ),
    Mutant(
        name="a node is not checked again before pods are bound to it",
        issues=("Volcano #4888", "kubernetes #76772"),
        module="phalanx.service.write_checks",
        edits={"        rejected = self._rejection(seen, state)\n": "        rejected = None\n"},
        caught_by=Played("plays_binding:node_cordoned_before_binds"),
    ),
    Mutant(
        name="capacity is not checked again before pods are bound",
        issues=("kubernetes #72043", "kubernetes #106884"),
        module="phalanx.service.write_checks",
        edits={"if amount < 0 < requests.get(resource, 0)]": "if False]"},
        caught_by=Played("plays_binding:foreign_pod_before_binds"),
    ),
    Mutant(
        name="an assumption overrides the state of the API",
        issues=("kubernetes #49314",),
        module="phalanx.cache.pods",
        edits={
            "            if pod.node is not None or pod.is_finished:\n": "            if pod.is_finished:\n"
        },
        caught_by=Played("plays_views:restart_below_minimum"),
    ),
    Mutant(
        name="pods are deleted without a UID precondition",
        issues=("kubernetes #31968", "Kueue #13857"),
        module="phalanx.kube.client",
        edits={'"preconditions": {"uid": uid}': '"preconditions": {}'},
        caught_by=Played("plays_binding:half_refused"),
    ),
    Mutant(
        name="evictions of a pod apply to any pod of the same name",
        issues=("kubernetes #31968",),
        module="phalanx.kube.evictor",
        edits={'{"metadata": {"uid": evict.pod}, "status"': '{"status"'},
        caught_by=Played("plays_binding:half_refused"),
    ),
)
