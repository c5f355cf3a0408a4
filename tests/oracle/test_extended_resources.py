"""The nodes for pods that request extended resources are those of kube-scheduler, which may satisfy them by
devices."""

import pytest
from hypothesis import HealthCheck, given

from tests.examples import holds
from tests.oracle.clusters import POD, Case
from tests.oracle.comparison import compare
from tests.oracle.extended_clusters import cases_with_extended_resources
from tests.oracle.plugins import Plugins


@pytest.mark.slow
@holds(15, suppress_health_check=list(HealthCheck))
@given(case=cases_with_extended_resources())
def test_random_clusters_with_extended_resources(plugins: Plugins, case: Case) -> None:
    found = compare(plugins, case.objects, POD)
    assert not found.problem, found
