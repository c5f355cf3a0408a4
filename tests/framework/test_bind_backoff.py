"""The smallest maximum of the back-off of binds, whatever the formula of the back-off is."""

import pytest
from phalanx.framework.retry import RetryConfig


class Constant(RetryConfig, frozen=True):
    """A back-off that does not grow."""

    def bind_backoff_ms(self, failures: int) -> int:
        return self.bind_backoff_first_milliseconds


class Linear(RetryConfig, frozen=True):
    """A back-off that grows by its first delay."""

    def bind_backoff_ms(self, failures: int) -> int:
        longest = 1000 * self.bind_backoff_max_seconds
        return min(self.bind_backoff_first_milliseconds * (1 + failures), longest)


@pytest.mark.parametrize(
    ("kind", "first_ms", "least"), [(Constant, 1, 60), (Linear, 500, 4), (Linear, 100, 60)]
)
def test_the_search_for_the_smallest_maximum_ends(kind: type[RetryConfig], first_ms: int, least: int) -> None:
    assert kind(bind_backoff_first_milliseconds=first_ms).bind_backoff_max_seconds_min == least
