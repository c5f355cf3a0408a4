"""Estimates the distribution of future pods from a list or from the arrived pods, for the scoring."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from phalanx.solver.fragmentation import Forecast, Fragmentation, TypicalPods

from bench.openb.shapes import Machine, Shape

COVERED_PERCENT = 95
"""The percentage of pods that the typical shapes of the published measure cover."""


def typical(pods: Mapping[Shape, int], *, covered_percent: int = COVERED_PERCENT) -> dict[Shape, int]:
    """The most frequent shapes without memory that cover this percentage of the pods, with their counts."""
    counts: Counter[Shape] = Counter()
    for pod, count in pods.items():
        counts[Shape(pod.cpu, 0, pod.gpus, pod.milli, pod.models)] += count
    wanted, covered = counts.total() * covered_percent, 0
    chosen: dict[Shape, int] = {}
    for shape, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if covered * 100 >= wanted:
            break
        chosen[shape] = count
        covered += count
    return chosen


def models_of(machines: Sequence[Machine]) -> tuple[str, ...]:
    """The device models in order; the kind of a node is the index of its model."""
    return tuple(sorted({machine.model for machine in machines}))


def typical_pods(counts: Mapping[Shape, int], models: Sequence[str]) -> tuple[TypicalPods, ...]:
    """These shapes as input of the scoring, in the same order."""
    return tuple(
        TypicalPods(
            cpu=shape.cpu,
            gpus=shape.gpus,
            milli=shape.milli,
            kinds=tuple(kind for kind, model in enumerate(models) if shape.admits(model)),
            count=count,
        )
        for shape, count in counts.items()
    )


def measure_of(shapes: Mapping[Shape, int], machines: Sequence[Machine]) -> Fragmentation:
    """The published measure for these typical shapes."""
    models, most = models_of(machines), max(machine.gpus for machine in machines)
    return Fragmentation(typical_pods(shapes, models), kinds=len(models), devices=most)


def forecast_of(seen: Mapping[Shape, int], machines: Sequence[Machine]) -> Forecast:
    """The forecast from the observed shapes; its prices are in the order of the machines."""
    models = models_of(machines)
    cpu, memory, gpus = (
        np.array([getattr(machine, what) for machine in machines], dtype=np.int64)
        for what in ("cpu", "memory", "gpus")
    )
    model = np.array([machine.model for machine in machines])
    takes = np.zeros((len(seen), len(machines)), dtype=np.bool_)
    for row, shape in enumerate(seen):
        fits = (shape.cpu <= cpu) & (shape.memory <= memory) & (shape.gpus <= gpus)
        takes[row] = fits & np.isin(model, shape.models) if shape.models else fits
    return Forecast(typical_pods(seen, models), takes, gpus, kinds=len(models))
