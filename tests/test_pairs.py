"""Runs of few examples leave out combinations, and no value or pair of values."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from tests.pairs import in_pairs, pairwise

pytest_plugins = ["pytester"]


@pytest.mark.parametrize("sizes", [(2, 3, 4), (2, 2, 2, 2, 2), (1, 5, 1, 3), (3, 3, 3, 3)])
def test_every_pair_is_kept(sizes: tuple[int, ...]) -> None:
    rows = [tuple(map(str, row)) for row in product(*map(range, sizes))]
    kept = pairwise(rows)
    assert pairs(kept) == pairs(rows)
    assert kept == [row for row in rows if row in kept]
    assert len(kept) < len(rows) or min(sizes) == 1


def pairs(rows: list[tuple[str, ...]]) -> set[object]:
    return {pair for row in rows for pair in combinations(enumerate(row), 2)}


def test_two_columns_stay_as_they_are() -> None:
    assert pairwise([("a", "b"), ("a", "c")]) == [("a", "b"), ("a", "c")]
    assert pairwise([()]) == [()]
    assert pairwise([]) == []


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
    names = [item.name.partition("[")[0] for item in in_pairs(items)]
    assert names == ["test_table"] * 4 + ["test_product"] * 4 + ["test_plain"]
