"""A real control plane for the tests that share one, and its logs in the report of a failed test."""

import os
from collections.abc import AsyncIterator, Generator
from itertools import chain
from typing import Any, Final

import pytest
import pytest_asyncio
from phalanx_controlplane import binaries, go_modules, releases
from phalanx_controlplane.controlplane import ControlPlane

GATES: Final = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true"
SERVED: Final = "--runtime-config=scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true"
POD_GROUPS_SINCE: Final = 37
"""The minor release of Kubernetes that has these gates and versions first."""

OF_A_GROUP: Final = frozenset({"control_plane", "standing_cluster", "cluster"})
"""Fixtures with components that all tests of one group share."""


def require_binaries() -> None:
    """Skip the test if the programs are missing and cannot be built; in CI, fail it."""
    if go_modules.can_build() or binaries.find() is not None:
        return
    reason = "no control plane: needs Go or KUBEBUILDER_ASSETS"
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def control_plane() -> AsyncIterator[ControlPlane]:
    """etcd, kube-apiserver, controller-manager and KWOK, shared: use names of your own.

    It serves Kubernetes' own PodGroups, which changes nothing for pods that name none.
    """
    require_binaries()
    has_pod_groups = releases.minor(releases.chosen()) >= POD_GROUPS_SINCE
    gates = (f"--feature-gates={GATES}",) if has_pod_groups else ()
    served = (SERVED,) if has_pod_groups else ()
    async with ControlPlane.start(apiserver_flags=gates + served, controller_manager_flags=gates) as plane:
        yield plane


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests of the shared control plane in one process: starting one takes ten CPU seconds.

    Tests of what the release of Kubernetes does not have are skipped.
    """
    release = releases.minor(releases.chosen())
    for item in items:
        if item.get_closest_marker("controlplane") and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group("control plane"))
        since = item.get_closest_marker("since")
        if since is not None and release < since.args[0]:
            item.add_marker(pytest.mark.skip(reason=f"needs Kubernetes 1.{since.args[0]}"))


def group_of(item: pytest.Item) -> str:
    """Its group if tests are distributed by group, else empty: xdist appends the name to the ID."""
    marker = item.get_closest_marker("xdist_group")
    group = str(marker.args[0]) if marker else ""
    return group if group and item.nodeid.endswith(f"@{group}") else ""


def ends_group(item: pytest.Item, following: pytest.Item | None) -> bool:
    """Whether this is the last test of a group: a process runs the tests of a group one after the other."""
    group = group_of(item)
    return group != "" and (following is None or group_of(following) != group)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, None, None]:
    """Stop the shared control plane after its last test: it would use CPU until the process ends.

    A fixture cannot have the scope of a group, so those with the scope of the session end here.
    """
    yield
    if ends_group(item, nextitem):
        definitions = item.session._fixturemanager._arg2fixturedefs
        for definition in chain.from_iterable(definitions[name] for name in OF_A_GROUP & definitions.keys()):
            if definition.scope == "session":
                definition.finish(item._request)  # type: ignore[attr-defined]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Append the ends of the components' logs to the report of a failed test."""
    report = yield
    fixtures: dict[str, Any] = getattr(item, "funcargs", {})
    plane = fixtures.get("control_plane")
    if report.failed and plane is not None:
        report.sections.append(("control plane", f"whole logs: {plane.keep_logs()}\n{plane.tail_logs()}"))
    return report
