"""Runs of few examples leave out combinations, and no value."""

from __future__ import annotations

from itertools import product

import pytest

from tests.choices import each_value, few_of

pytest_plugins = ["pytester"]


@pytest.mark.parametrize("sizes", [(2, 3), (2, 3, 4), (2, 2, 2, 2, 2), (1, 5, 1, 3), (3, 3, 3, 3)])
def test_every_value_is_kept(sizes: tuple[int, ...]) -> None:
    rows = [tuple(map(str, row)) for row in product(*map(range, sizes))]
    kept = each_value(rows)
    assert {(place, value) for row in kept for place, value in enumerate(row)} == {
        (place, str(value)) for place, size in enumerate(sizes) for value in range(size)
    }
    assert {*kept} <= {*rows}
    assert len(kept) == max(sizes)


def test_one_column_stays_as_it_is() -> None:
    assert each_value([("a",), ("b",)]) == [("a",), ("b",)]
    assert each_value([()]) == [()]
    assert each_value([]) == []


def test_rows_of_a_table_are_values(pytester: pytest.Pytester) -> None:
    items = pytester.getitems(
        """
        import pytest

        @pytest.mark.parametrize("a, b, c", [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0)])
        def test_table(a, b, c): pass

        @pytest.mark.parametrize("a", [0, 1])
        @pytest.mark.parametrize("b", [0, 1])
        @pytest.mark.parametrize("c", [0, 1])
        def test_product(a, b, c): pass

        def test_plain(): pass
        """
    )
    names = [item.name.partition("[")[0] for item in few_of(items)]
    assert names == ["test_table"] * 4 + ["test_product"] * 2 + ["test_plain"]
