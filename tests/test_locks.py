"""Values made once for each key, by any number of threads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from kspec.locks import OnceMap


def test_eight_threads_make_one_value() -> None:
    made: list[object] = []
    start = threading.Barrier(8)
    values: OnceMap[str, object] = OnceMap()

    def make() -> object:
        made.append(object())
        return made[-1]

    def ask(_: int) -> object:
        start.wait()
        return values.get_or_make("key", make)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(8)))
    assert len(made) == 1
    assert all(answer is made[0] for answer in answers)
    assert values.keys() == ("key",)


def test_different_keys_are_made_at_the_same_time() -> None:
    both = threading.Barrier(2)
    values: OnceMap[int, int] = OnceMap()

    def make(key: int) -> int:
        both.wait(timeout=200)  # broken unless the other one is being made too
        return -key

    with ThreadPoolExecutor(2) as pool:
        tasks = [
            pool.submit(values.get_or_make, key, lambda key=key: make(key))  # type: ignore[misc]
            for key in (1, 2)
        ]
        assert [task.result() for task in tasks] == [-1, -2]


def test_a_failure_keeps_nothing() -> None:
    values: OnceMap[str, int] = OnceMap()

    def fail() -> int:
        raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            values.get_or_make("key", fail)
    assert values.get("key") is None
    assert values.get_or_make("key", lambda: 1) == 1


def test_making_one_may_ask_for_another() -> None:
    values: OnceMap[int, int] = OnceMap()

    def factorial(n: int) -> int:
        return values.get_or_make(n, lambda: n * factorial(n - 1) if n else 1)

    assert factorial(5) == 120
    assert values.keys() == (0, 1, 2, 3, 4, 5)
