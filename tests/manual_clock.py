"""A clock that advances only when a test sets it."""

EPOCH_MS = 1_700_000_000_000


class ManualClock:
    """`seconds`: the monotonic time; wall time starts at EPOCH_MS."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def now_ms(self) -> int:
        return EPOCH_MS + int(1000 * self.seconds)
