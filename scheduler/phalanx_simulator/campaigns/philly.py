"""Statistics of Microsoft's Philly trace: 82,247 jobs, September to December 2017.

Measured by us on the data set of msr-fiddle/philly-traces (CC-BY-4.0) in the form that siasosp23/artifacts
publishes: submit time, duration, GPUs, virtual cluster. 93.2 % of the jobs request one GPU, but the 2 % that
request eight hold 48 % of all GPU time; 1 % of the jobs hold 67 % of it. Half of the jobs end within 19
minutes, 40 % within ten; the longest took 54 days. 46 % of the jobs were submitted in bursts of more than 100
jobs, less than a minute apart.

The trace does not say how a job ended. Those figures are from Alibaba's Unicron: 43.4 % of tasks end
abnormally, 73 % of them in their first ten minutes.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from phalanx.clock import Random

Quantiles = Sequence[tuple[float, float]]
"""Probability and value, rising; values between them are interpolated logarithmically."""

JOBS_BY_GPUS: Final[Mapping[int, int]] = {
    1: 76_627,
    2: 1_818,
    4: 1_870,
    8: 1_643,
    12: 7,
    16: 199,
    24: 7,
    32: 67,
    64: 6,
    128: 3,
}
JOBS_BY_TENANT: Final = (41_226, 16_091, 9_953, 7_423, 1_934, 1_511, 1_435, 1_137, 723, 422)
"""Of the ten largest virtual clusters."""

_STEPS: Final = (
    0,
    0.01,
    0.05,
    0.1,
    0.2,
    0.3,
    0.4,
    0.5,
    0.6,
    0.7,
    0.8,
    0.9,
    0.95,
    0.98,
    0.99,
    0.995,
    0.999,
    1,
)


def _quantiles(*values: int) -> Quantiles:
    return tuple(zip(_STEPS, values, strict=True))


_DURATIONS_S: Final[Mapping[int, Quantiles]] = {
    1: _quantiles(
        *(1, 30, 52, 62, 76, 215, 600, 1_117, 1_728, 2_464, 3_754, 8_512, 19_137),
        *(68_259, 135_404, 266_986, 868_927, 3_256_045),
    ),
    2: _quantiles(
        *(2, 5, 9, 11, 15, 17, 19, 21, 25, 33, 150, 73_625, 197_392),
        *(343_945, 526_030, 810_065, 1_521_148, 2_582_803),
    ),
    4: _quantiles(
        *(3, 35, 75, 138, 406, 1_696, 7_475, 17_431, 36_341, 78_716, 106_319, 184_519, 274_339),
        *(536_225, 908_661, 1_213_031, 2_641_566, 2_750_674),
    ),
    8: _quantiles(
        *(1, 33, 125, 216, 783, 3_940, 12_390, 23_683, 64_753, 140_815, 203_140, 352_409, 525_631),
        *(807_057, 1_066_894, 2_010_727, 2_658_784, 4_628_226),
    ),
    16: _quantiles(
        *(1, 2, 35, 69, 345, 880, 3_165, 21_137, 53_862, 73_728, 159_985, 252_560, 446_126),
        *(622_377, 1_152_387, 1_369_876, 1_710_643, 1_710_643),
    ),
}
"""By number of GPUs; the last entry is for all jobs with more than eight."""

_BURSTS: Final[Quantiles] = (
    (0, 1),
    (0.73, 1),
    (0.8, 2),
    (0.9, 3),
    (0.95, 6),
    (0.98, 23),
    (0.99, 84),
    (0.995, 169),
    (0.999, 452),
    (1, 1_099),
)
"""Number of jobs of a burst; its jobs are less than a minute apart."""

GAP_S: Final = 8.0
"""Median seconds between two jobs."""

_EARLY_S: Final = 600
_EARLY: Final = 0.400
_ABNORMAL: Final = 0.434
_ABNORMAL_EARLY: Final = 0.73


def duration_s(gpus: int, random: Random) -> float:
    """How long a job with so many GPUs runs."""
    quantiles = next((found for size, found in _DURATIONS_S.items() if gpus <= size), _DURATIONS_S[16])
    return round(drawn(quantiles, random), 1)


def burst_size(random: Random) -> int:
    """Draw the number of jobs of a burst."""
    return round(drawn(_BURSTS, random))


def fails(run_s: float, random: Random) -> bool:
    """Draw whether a job of that duration fails.

    Of all jobs 43.4 % fail, 73 % of these early.
    """
    if run_s <= _EARLY_S:
        return random.random() < _ABNORMAL * _ABNORMAL_EARLY / _EARLY
    return random.random() < _ABNORMAL * (1 - _ABNORMAL_EARLY) / (1 - _EARLY)


def drawn(quantiles: Quantiles, random: Random) -> float:
    """A value of this distribution."""
    lot = random.random()
    for (low, smaller), (high, larger) in pairwise(quantiles):
        if lot < high:
            part = (lot - low) / (high - low)
            return math.exp(math.log(smaller) + part * (math.log(larger) - math.log(smaller)))
    return quantiles[-1][1]
