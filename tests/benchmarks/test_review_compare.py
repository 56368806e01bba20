"""Reviews of small launches beside what a GPU counted for large ones: the same for each request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.review.cases import raw_cases
from benchmarks.review.compare import Compared, Comparison, compare, review_of, text_of

FILE = Path(__file__).parents[2] / "benchmarks/review/measured_h200.json"
CASES = {case.name: case for case in raw_cases(2**16)}
SOME = (
    "strided_3",
    "misaligned_1",
    "double_misaligned",
    "transpose_tile",
    "transpose_padded",
    "shared_stride_8",
    "shared_double_stride_2",
    "four_ways",
    "odd_even_loads",
)


def measured(*names: str) -> dict[str, Any]:
    data = json.loads(FILE.read_text(encoding="utf-8"))
    return {**data, "cases": [case for case in data["cases"] if case["name"] in names]}


@pytest.mark.parametrize("name", SOME)
def test_requests_are_those_of_the_gpu(name: str) -> None:
    found = compare({name: review_of(CASES[name])}, measured(name))
    assert found.sectors or found.conflicts
    for one in (*found.sectors, *found.conflicts, *found.lanes):
        assert one.error <= 0.02, one
    assert len(found.times) == 1


def test_misses_are_listed() -> None:
    near, far = Compared("a", "3 load", 4.0, 4.0), Compared("b", "5 store", 8.0, 4.0)
    times = (Compared("a", "", 10.0, 11.0), Compared("b", "", 30.0, 20.0))
    found = Comparison((near, far), (), (near,), (near,), times, frozenset({"a"}))
    text = text_of(found)
    assert "2 kernels, 1 of them saturate the memory" in text
    assert "sectors of a request within 2 %: 50.0% of 2" in text
    assert "times of saturating kernels within 15 %: 100.0% of 1" in text
    assert "rank correlation of times: 1.000" in text
    assert (
        "b                              5 store" in text
        and "a                              3" not in text
    )


def test_lines_that_moved_are_compared_by_their_kind() -> None:
    data = measured("strided_3")
    (launch,) = data["cases"][0]["launches"]
    for line in launch["lines"]:
        line["line"] += line["kind"] == "load"
    found = compare({"strided_3": review_of(CASES["strided_3"])}, data)
    places = [one.place for one in found.sectors]
    assert places[0] == "load" and places[1].endswith(" store") and places[1][0].isdigit()
    assert all(one.error <= 0.02 for one in (*found.sectors, *found.active))
