"""Names that preambles declare."""

from __future__ import annotations

import pytest

from kspec.cpp.preambles import preamble_names


@pytest.mark.parametrize("number", ["1000", "1'000", "0x1'0p3", "1'000'000", "1.5e3f"])
def test_quotes_in_numbers_hide_no_names(number: str) -> None:
    text = f"const auto a = {number}; __device__ int rows(int k); const char c = 'x';"
    assert {"a", "rows", "c"} <= preamble_names(text)
    assert not preamble_names(text) & {"k", "x"}
