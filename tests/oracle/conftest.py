"""The oracle's process, shared by the tests of one worker."""

from collections.abc import Iterator

import pytest

from tests.oracle.plugins import Plugins, require_program, running


@pytest.fixture(scope="session")
def plugins() -> Iterator[Plugins]:
    require_program()
    with running() as found:
        yield found
