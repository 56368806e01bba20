"""Progress of long work: lines by value, and the bar of a terminal."""

from __future__ import annotations

from typing import Any

import pytest

from kspec.build.cli import output
from kspec.build.pace import Pace

# Seconds of a step, whether it did work, and its line.
STEPS = [
    (3.0, False, "compiling 1/9: one"),  # found in the cache: nothing is known of the others
    (1.0, False, "compiling 2/9: one"),
    (6.0, True, "compiling 3/9: one, 36 s left"),
    (2.0, True, "compiling 4/9: one, 20 s left"),
    (292.0, True, "compiling 5/9: one, 7 min left"),
    (0.0, False, "compiling 6/9: one, 5 min left"),
    (100.0, True, "compiling 7/9: one, 3 min left"),
    (0.0, True, "compiling 8/9: one, 80 s left"),
    (1.0, True, "compiling 9/9: one"),
]


class Clock:
    """A time that passes when it is told to."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the clock of progress."""
    clock = Clock()
    monkeypatch.setattr(output, "Pace", lambda total: Pace(total, clock))
    return clock


def test_lines_of_progress(clock: Clock, capfd: pytest.CaptureFixture[str]) -> None:
    with output.progress_bar("compiling", 0) as advance:
        for seconds, worked, _ in STEPS:
            clock.now += seconds
            advance("one", 9, worked)
    assert capfd.readouterr().err.splitlines() == [line for _, _, line in STEPS]


def test_time_passes_between_steps() -> None:
    clock = Clock()
    pace = Pace(3, clock)
    assert pace.left() is None
    clock.now += 10
    pace.step()
    found = []
    for _ in range(4):
        found.append(pace.left())
        clock.now += 7
    assert found == [20, 13, 6, 0]


def test_a_terminal_counts_down(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("FORCE_COLOR", "1")  # which rich takes for a terminal
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    with output.progress_bar("compiling", 0) as advance:
        bar: Any = advance._bar
        bar.refresh()
        assert "left" not in capfd.readouterr().err
        advance.expect(15)
        bar.refresh()
        assert "0/15" in capfd.readouterr().err
        clock.now += 10
        advance("statistics.a_histogram_with_a_long_name for compute_80", 15)
        for seconds, text in ((0, "2 min left"), (45, "95 s left")):
            clock.now += seconds
            bar.refresh()
            shown = capfd.readouterr().err
            assert "compiling statistics.a_histogram" in shown and "…" in shown
            assert "1/15" in shown and text in shown
