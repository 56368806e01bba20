"""Which measured choice a call gets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kspec.model.tuning import REACH, Sizes, Tuned, TunedTable, TuningCase, tuned_data, tuned_of

ROWS = Tuned("H200", ("float32",), ((1000,), (64,)), {"lanes": 2}, 1.2, "5f0c")
MORE = Tuned("H200", ("float32",), ((4000,), (64,)), {"lanes": 3}, 1.1, "5f0c")
TABLE = TunedTable((ROWS, MORE))


def case(
    *sizes: tuple[int, ...], gpu: str = "H200", types: tuple[str, ...] = ("float32",)
) -> TuningCase:
    return TuningCase(gpu, types, sizes, list)


@pytest.mark.parametrize(
    ("sizes", "lanes"),
    [
        (((1000,), (64,)), 2),
        (((500,), (128,)), 2),
        (((1999,), (64,)), 2),
        (((2001,), (64,)), 3),
        (((8000,), (32,)), 3),
        (((499,), (64,)), None),
        (((8001,), (64,)), None),
        (((1000,), (129,)), None),
        (((0,), (64,)), None),
        (((1000, 1), (64,)), None),
        (((1000,),), None),
    ],
)
def test_the_nearest_sizes_within_reach_decide(sizes: Sizes, lanes: int | None) -> None:
    assert TABLE.choice(case(*sizes)) == ({"lanes": lanes} if lanes else None)


def test_other_gpus_and_types_have_choices_of_their_own() -> None:
    sizes = (1000,), (64,)
    assert TABLE.choice(case(*sizes, gpu="H100")) is None
    assert TABLE.choice(case(*sizes, types=("float16",))) is None
    assert TunedTable().choice(case(*sizes)) is None
    assert not TunedTable() and TABLE


@given(st.integers(1, 10**9), st.integers(1, 10**9))
def test_reach_is_a_factor(have: int, want: int) -> None:
    table = TunedTable((Tuned("", (), ((have,),), {"lanes": 1}),))
    found = table.choice(case((want,), gpu="", types=())) is not None
    assert found == (max(have, want) <= REACH * min(have, want))


def test_plain_data_are_undone() -> None:
    assert tuned_of(tuned_data(ROWS)) == ROWS
