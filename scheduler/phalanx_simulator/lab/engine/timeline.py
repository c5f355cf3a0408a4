"""GPUs that are held and waited for, averaged over equal steps of the days that are played."""

from typing import Final

from phalanx_simulator.lab.engine.outcome import Timeline

TIMELINE_STEPS: Final = 168
"""Steps into which the days of a study are divided for plots: the hours of a week."""


class TimelineSums:
    """Sums GPU time by step; all times in milliseconds."""

    def __init__(self, end_ms: int) -> None:
        self._end = end_ms
        self._step = -(-end_ms // TIMELINE_STEPS)
        steps = -(-end_ms // self._step)
        self._held = [0] * steps
        self._waiting = [0] * steps

    def add(self, begin: int, end: int, *, held: int, waiting: int) -> None:
        """So many GPUs were held and waited for in this span."""
        end = min(end, self._end)
        while begin < end:
            step = begin // self._step
            until = min(end, (step + 1) * self._step)
            self._held[step] += held * (until - begin)
            self._waiting[step] += waiting * (until - begin)
            begin = until

    def timeline(self) -> Timeline:
        """The averages."""
        spans = [
            min(self._end, (step + 1) * self._step) - step * self._step for step in range(len(self._held))
        ]
        held, waiting = (
            tuple(round(amount / span, 2) for amount, span in zip(sums, spans, strict=True))
            for sums in (self._held, self._waiting)
        )
        return Timeline(self._step / 1000, held, waiting)
