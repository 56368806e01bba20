"""Parts of an estimated time by themselves."""

from __future__ import annotations

import pytest

from kspec.host.recording import Traffic
from kspec.reviews.machine import MACHINES
from kspec.reviews.prediction import loaded_sectors


@pytest.mark.parametrize(
    ("room", "sectors"), [(64, 100), (63, 100 + 1000 / 32), (48, 600), (32, 1100), (1, 1100)]
)
def test_lines_that_the_first_cache_has_no_room_for_are_loaded_again(
    room: float, sectors: float
) -> None:
    """1000 sectors are loaded again after 32 to 63 other lines."""
    traffic = Traffic("x", 2**30, 100, 0, 0, 0, 100, 0, 0, again=(0, 0, 0, 0, 0, 1000))
    assert loaded_sectors(traffic, 1.0, room, MACHINES[0]) == pytest.approx(sectors)
    assert loaded_sectors(traffic, 3.0, room, MACHINES[0]) == pytest.approx(3 * sectors)
