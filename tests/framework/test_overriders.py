"""Which plugins a hook asks, by their classes."""

from phalanx.framework.overriders import Overrider, Overriders
from phalanx.framework.plugin import Plugin
from phalanx.framework.session_cache import SessionCache


class Filters(Plugin):
    name = "filters"

    def node_filter(self, pod, view):
        return None


class FiltersUntil(Filters):
    name = "filters-until"

    def valid_until(self, view):
        return 1


class Orders(Plugin):
    name = "orders"

    def start_order(self, queue, start, view):
        return ()


def test_only_overriding_plugins_are_found() -> None:
    found = Overriders((Orders, Filters, FiltersUntil))
    assert found.of("node_filter") == [Overrider(1, may_read_time=False), Overrider(2, may_read_time=True)]
    assert found.of("gang_order") == []


def test_hooks_together_are_not_confused_with_the_first_one_alone() -> None:
    found = Overriders((Orders,))
    assert found.of("queue_order", "start_order") == [Overrider(0, may_read_time=True)]
    assert found.of("queue_order") == []


def test_the_session_cache_keeps_them_while_the_classes_are_the_same() -> None:
    cache = SessionCache()
    first = cache.overriders((Orders(), Filters()))
    assert cache.overriders((Orders(), Filters())) is first
    other = cache.overriders((Filters(), Orders()))
    assert other.of("node_filter") == [Overrider(0, may_read_time=False)]
