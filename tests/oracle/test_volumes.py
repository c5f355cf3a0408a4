"""Claims that take volumes which exist already: the nodes are those of kube-scheduler's VolumeBinding."""

import pytest
from hypothesis import HealthCheck, given

from tests.examples import holds
from tests.oracle.clusters import POD, Case
from tests.oracle.comparison import compare
from tests.oracle.plugins import Plugins
from tests.oracle.volume_clusters import volume_cases


@pytest.mark.slow
@holds(20, suppress_health_check=list(HealthCheck))
@given(case=volume_cases())
def test_random_volumes(plugins: Plugins, case: Case) -> None:
    found = compare(plugins, case.objects, POD)
    assert not found.left_out
    assert not found.problem
