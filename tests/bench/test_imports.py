"""Every benchmark can be imported; most are only run by hand."""

import importlib
import pkgutil

import pytest

import bench

pytestmark = pytest.mark.xdist_group("imports of benchmarks")
"""One process imports what they share."""

MODULES = [
    each.name for each in pkgutil.walk_packages(bench.__path__, "bench.") if "__main__" not in each.name
]


@pytest.mark.parametrize("module", MODULES)
def test_a_module_can_be_imported(module: str) -> None:
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as missing:
        if missing.name is None or not missing.name.startswith("matplotlib"):
            raise
