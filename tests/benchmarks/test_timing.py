"""Statistics and the order of measurements."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from benchmarks import timing
from benchmarks.timing import Sample, garbage_collection_off, interleaved, repetitions, summarise


def test_summarise() -> None:
    assert summarise([3.0, 1.0, 2.0]) == Sample(2.0, 1.0, 3)
    assert summarise([4.0, 1.0, 2.0, 3.0]) == Sample(2.5, 1.0, 4)


@pytest.mark.parametrize(
    ("once", "budget", "wanted"),
    [(0.01, 0.1, 9), (0.1, 0.1, 3), (5.0, 0.1, 3), (1e-6, 0.1, 15), (0.0, 0.1, 15), (0.02, 0.1, 5)],
)
def test_repetitions_are_odd_and_at_least_three(once: float, budget: float, wanted: int) -> None:
    assert repetitions(once, budget, 15) == wanted


def test_the_collector_is_off_and_comes_back() -> None:
    assert gc.isenabled()
    with garbage_collection_off():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_interleaved_takes_turns_and_waits_between_bursts() -> None:
    events: list[str] = []

    @contextmanager
    def around() -> Iterator[None]:
        events.append("enter")
        yield
        events.append("leave")

    samples = interleaved(
        {"a": lambda: events.append("a"), "b": lambda: events.append("b")},
        rounds=2,
        calls=2,
        finish=lambda: events.append("finish"),
        around=around,
    )
    one_round = ["enter", "a", "a", "finish", "leave", "enter", "b", "b", "finish", "leave"]
    assert events == one_round * 3  # the first is not counted
    assert samples["a"].count == samples["b"].count == 2


def test_burst_divides_by_the_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0, 14.0])
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(clock))
    assert timing.burst(lambda: None, 8) == 0.5
