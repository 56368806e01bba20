"""Options and fixtures that all tests share."""

from __future__ import annotations

import pytest

from tests.profiles import load_profile

load_profile()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what the code says now into tests/golden/**/*.case",
    )


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))
