"""Who gets the pod: the published policies in our own words, and the one with a look-ahead.

A policy gives costs. The node with the least gets the pod, of equals the one with the smallest name (of the
product's own policy: the fullest), and on it the device with the least, of equals the first.
"""

import random
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from phalanx.model.gpu_shares import WHOLE_DEVICE
from phalanx.solver.fragmentation import Fragmentation, Integers, TrialPlacement

from bench.openb.cluster import Cluster
from bench.openb.shapes import Machine, Shape
from bench.openb.typical import forecast_of

SCORE_MAX = 100
CPU_SPEC, GPU_SPEC = 128_000, 8_000
"""The largest node, by which the published BestFit divides."""

FIRST_LESSON = 1
"""Pods seen before the first forecast; the next follow at twice as many each."""


class Policy(Protocol):
    """One run's state of a policy."""

    def costs(self, outlook: TrialPlacement, node: int) -> Integers:
        """Of this node, by [shape, device] or [shape, 1]; what does not fit is left to the caller."""
        ...

    def saw(self, pod: Shape) -> bool:
        """A pod arrives. True when all costs are different from now on."""
        ...

    def pick(self, costs: Integers, candidates: Integers, cluster: Cluster) -> int:
        """One of the nodes that take the pod; `costs` are theirs."""
        ...


class Cheapest:
    """What most policies have in common."""

    def saw(self, pod: Shape) -> bool:
        """Costs stay."""
        return False

    def pick(self, costs: Integers, candidates: Integers, cluster: Cluster) -> int:
        """The first of the cheapest."""
        return int(candidates[costs.argmin()])


class Fgd(Cheapest):
    """Fragmentation gradient descent (ATC'23): the least growth of the expected unusable GPU.

    It knows the whole list's typical shapes beforehand, and its scores are whole numbers from 0 to 100.
    """

    def __init__(self, measure: Fragmentation) -> None:
        self._measure = measure

    def costs(self, outlook: TrialPlacement, node: int) -> Integers:
        """The score is 100 times the sigmoid of the loss in devices, cut to a whole number."""
        before, after = outlook.fragments(self._measure)
        gain = (before[:, None] - after) / (WHOLE_DEVICE * self._measure.pods)
        return -(SCORE_MAX / (1 + np.exp(-gain))).astype(np.int64)


class BestFit(Cheapest):
    """The least left over: half the cores, half the devices, each in parts of the largest node."""

    def costs(self, outlook: TrialPlacement, node: int) -> Integers:
        """Scores from 0 to 100 as published; among a node's devices the fullest."""
        left = outlook.cpu / CPU_SPEC * 0.5 + outlook.idle / GPU_SPEC * 0.5
        score = ((1.0 - left) * SCORE_MAX).astype(np.int64)
        device = np.where(outlook.share[:, None], outlook.nodes.devices, 0)
        return (WHOLE_DEVICE + 1) * -score[:, None] + device


class Random(Cheapest):
    """Any node that takes the pod, and on it any device."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._devices = np.random.default_rng(rng.getrandbits(64))

    def costs(self, outlook: TrialPlacement, node: int) -> Integers:
        """Drawn again whenever the node changes."""
        return self._devices.integers(0, WHOLE_DEVICE, size=outlook.left.shape)

    def pick(self, costs: Integers, candidates: Integers, cluster: Cluster) -> int:
        """Whatever they cost."""
        return int(candidates[self._rng.randrange(len(candidates))])


class LookAhead(Cheapest):
    """The product's scoring; it learns from the pods that arrive and knows no list beforehand.

    The product learns in each cycle, which is each time a pod arrives (`always`); here it does at 1 pod, 2,
    4, 8 and so on, to save time.
    """

    def __init__(self, machines: Sequence[Machine], *, always: bool = False) -> None:
        self._machines = machines
        self._always = always
        self._seen: Counter[Shape] = Counter()
        self._next_lesson = FIRST_LESSON
        self._forecast = forecast_of({}, machines)

    def saw(self, pod: Shape) -> bool:
        """Whether it learned."""
        self._seen[pod] += 1
        if self._seen.total() < self._next_lesson and not self._always:
            return False
        self._next_lesson *= 2
        self._forecast = forecast_of(self._seen, self._machines)
        return True

    def costs(self, outlook: TrialPlacement, node: int) -> Integers:
        """As the forecast has them."""
        return self._forecast.costs(outlook, self._forecast.prices[node : node + 1])

    def pick(self, costs: Integers, candidates: Integers, cluster: Cluster) -> int:
        """The fullest of the cheapest, as in the product: whole devices, parts of one too, cores, memory."""
        cheapest = candidates[costs == costs.min()]
        devices = -(-cluster.devices[cheapest].sum(axis=1) // WHOLE_DEVICE)
        order = np.lexsort((cluster.memory[cheapest], cluster.cpu[cheapest], devices))
        return int(cheapest[order[0]])
