"""A contract test takes a moment; one that hangs is a failure long before the run's own limit."""

from pathlib import Path

import pytest

TEST_S_MAX = 40


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(TEST_S_MAX))
