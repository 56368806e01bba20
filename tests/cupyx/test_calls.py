"""The functions of `cupyx.scipy` return the same on kspec's kernels as on CuPy's."""

from __future__ import annotations

import ast

import numpy as np
import pytest

from tests.cupyx.__main__ import shown, summary
from tests.cupyx.calls import CALLS, operands
from tests.cupyx.pool import Outcome, Worker, run
from tests.cupyx.results import difference, leaves


def test_the_table_has_at_least_150_distinct_calls():
    calls = [call for module in CALLS.values() for call in module]
    assert len(set(calls)) == len(calls) >= 150
    for call in calls:
        ast.parse(call, mode="eval")


def test_operands_are_the_same_in_every_process():
    first, second = operands(), operands()
    assert all(np.array_equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([1.0, float("nan")], None),
        ([1.0 + 1e-12, float("nan")], None),
        ([1.0, 2.0], "1 of 2 values, first at (1,): 2.0, CuPy nan"),
        ([1.1, float("nan")], "1 of 2 values, first at (0,): 1.1, CuPy 1.0"),
        (np.asarray([1, 2], "float32"), "dtype float32, CuPy float64"),
        ([1.0], "shape (1,), CuPy (2,)"),
        ((np.ones(2),), "returned ['[0]'], CuPy ['']"),
    ],
)
def test_differences_are_found_and_told(found, words):
    value = found if isinstance(found, tuple) else np.asarray(found)
    assert difference(leaves(np.asarray([1.0, float("nan")])), leaves(value)) == words


def test_differences_inside_results_say_where():
    expected = leaves({"heights": (np.ones(2), np.arange(3))})
    found = leaves({"heights": (np.ones(2), np.arange(3) * 2)})
    assert difference(expected, found) == (
        "result['heights'][1]: 2 of 3 values, first at (1,): 2, CuPy 1"
    )


def test_summaries_count_calls_by_module():
    outcomes = [Outcome("signal", "f(x)", "same", kernels=2), Outcome("sparse", "A", "fails", "no")]
    lines = [line.split() for line in summary(outcomes).split("\n")]
    assert lines[1:] == [
        ["signal", "1", "0", "0", "0", "1"],
        ["sparse", "0", "0", "1", "0", "0"],
        ["all", "1", "0", "1", "0", "1"],
    ]


def test_workers_that_end_are_replaced(tmp_path):
    worker = Worker("scipy")  # NumPy is enough for these
    ended = worker.ask("__import__('os')._exit(3)", tmp_path / "a.npz")
    assert ended == {"error": "the process ended with status 3", "kernels": 0}
    raised = worker.ask("np.ones(3) + no_such_name", tmp_path / "b.npz")
    assert raised["error"] == "NameError: name 'no_such_name' is not defined"
    assert worker.ask("np.ones(3), weights[0]", tmp_path / "c.npz")["error"] is None
    with np.load(tmp_path / "c.npz") as found:
        assert difference(leaves((np.ones(3), operands()["weights"][0])), dict(found)) is None
    worker.end()


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.unsanitized("CuPy's libraries, in processes of their own")
def test_functions_of_cupyx_agree():
    pytest.importorskip("cupy")
    pytest.importorskip("scipy")
    outcomes = run()
    wrong = [one for one in outcomes if one.verdict in ("fails", "differs")]
    assert not wrong, "\n".join([*map(shown, wrong), summary(outcomes)])
    assert sum(one.verdict == "same" and one.kernels > 0 for one in outcomes) >= 150
