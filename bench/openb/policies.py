"""Placement policies: our implementations of the published ones, and the scoring of Phalanx (LookAhead).

A policy computes costs. The pod is placed on the node with the least cost; ties are broken by the smallest
name (for LookAhead, by the fullest node), and on it on the first device with the least cost.
"""

import random
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from phalanx.model.supplies.gpu_shares.devices import WHOLE_DEVICE
from phalanx.solver.fragmentation import Fragmentation, Integers, TrialPlacement

from bench.openb.cluster import Cluster
from bench.openb.shapes import Machine, Shape
from bench.openb.typical import forecast_of

SCORE_MAX = 100
CPU_SPEC, GPU_SPEC = 128_000, 8_000
"""The size of the largest node, by which the published BestFit divides."""

FIRST_LESSON = 1
"""The number of pods before the first forecast; the number doubles for each following forecast."""


class Policy(Protocol):
    """The state of a policy in one run."""

    def costs(self, outlook: TrialPlacement, node: int) -> Integers:
        """The costs on this node by [shape, device] or [shape, 1]; the caller excludes what does not fit."""
        ...

    def saw(self, pod: Shape) -> bool:
        """Observe an arriving pod. True when all costs have changed."""
        ...

    def pick(self, costs: Integers, candidates: Integers, cluster: Cluster) -> int:
        """Choose one of the candidate nodes; `costs` are theirs."""
        ...


class Cheapest:
    """The common part of most policies."""

    def saw(self, pod: Shape) -> bool:
        """Costs do not change."""
        return False

    def pick(self, costs: Integers, candidates: Integers, cluster: Cluster) -> int:
        """The first of the cheapest nodes."""
        return int(candidates[costs.argmin()])


class Fgd(Cheapest):
    """Fragmentation gradient descent (ATC'23): the least growth of the expected unusable GPU capacity.

    It knows the typical shapes of the whole list in advance, and its scores are integers from 0 to 100.
    """

    def __init__(self, measure: Fragmentation) -> None:
        self._measure = measure

    def costs(self, outlook: TrialPlacement, node: int) -> Integers:
        """The score is 100 times the sigmoid of the loss in devices, truncated to an integer."""
        before, after = outlook.fragments(self._measure)
        gain = (before[:, None] - after) / (WHOLE_DEVICE * self._measure.pods)
        return -(SCORE_MAX / (1 + np.exp(-gain))).astype(np.int64)


class BestFit(Cheapest):
    """The least remaining capacity: cores and devices with equal weight, relative to the largest node."""

    def costs(self, outlook: TrialPlacement, node: int) -> Integers:
        """Scores from 0 to 100 as published; the fullest device of a node."""
        left = outlook.cpu / CPU_SPEC * 0.5 + outlook.idle / GPU_SPEC * 0.5
        score = ((1.0 - left) * SCORE_MAX).astype(np.int64)
        device = np.where(outlook.share[:, None], outlook.nodes.devices, 0)
        return (WHOLE_DEVICE + 1) * -score[:, None] + device


class Random(Cheapest):
    """A random feasible node, and a random feasible device."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._devices = np.random.default_rng(rng.getrandbits(64))

    def costs(self, outlook: TrialPlacement, node: int) -> Integers:
        """Drawn again whenever the node changes."""
        return self._devices.integers(0, WHOLE_DEVICE, size=outlook.left.shape)

    def pick(self, costs: Integers, candidates: Integers, cluster: Cluster) -> int:
        """Choose a random candidate."""
        return int(candidates[self._rng.randrange(len(candidates))])


class LookAhead(Cheapest):
    """The scoring of Phalanx; it learns from the arriving pods and knows no list in advance.

    Phalanx learns in each cycle, which is each time a pod arrives (`always`); here it does at 1, 2, 4, 8…
    pods to save time.
    """

    def __init__(self, machines: Sequence[Machine], *, always: bool = False) -> None:
        self._machines = machines
        self._always = always
        self._seen: Counter[Shape] = Counter()
        self._next_lesson = FIRST_LESSON
        self._forecast = forecast_of({}, machines)

    def saw(self, pod: Shape) -> bool:
        """Observe a pod; return whether the forecast was updated."""
        self._seen[pod] += 1
        if self._seen.total() < self._next_lesson and not self._always:
            return False
        self._next_lesson *= 2
        self._forecast = forecast_of(self._seen, self._machines)
        return True

    def costs(self, outlook: TrialPlacement, node: int) -> Integers:
        """The costs of the forecast."""
        return self._forecast.costs(outlook, self._forecast.prices[node : node + 1])

    def pick(self, costs: Integers, candidates: Integers, cluster: Cluster) -> int:
        """The fullest of the cheapest nodes, as in Phalanx: by devices, then shares, cores, memory."""
        cheapest = candidates[costs == costs.min()]
        devices = -(-cluster.devices[cheapest].sum(axis=1) // WHOLE_DEVICE)
        order = np.lexsort((cluster.memory[cheapest], cluster.cpu[cheapest], devices))
        return int(cheapest[order[0]])
