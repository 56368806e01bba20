"""README's picture shows rows of RESULTS.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import summary

TEXT = (summary.HERE / "RESULTS.md").read_text(encoding="utf-8")


def test_every_bar_is_a_row_of_the_page() -> None:
    bandwidth, calls, starts = summary.panels(TEXT)
    assert len(bandwidth.names) == len(bandwidth.values["kspec"])
    assert all(one and 0.5 < one < 1.2 for one in bandwidth.values["kspec"]), "of a copy"
    assert all(one and one < 20 for one in calls.values["kspec"]), "microseconds"
    assert starts.values["CuPy"][0] is None, "CuPy ships nothing precompiled"
    assert summary.tables(TEXT)["Elementwise"]["f32 contiguous"]["of the copy"] == "1.05"


def test_a_row_that_is_gone_is_an_error() -> None:
    with pytest.raises(KeyError, match=r"x\.T"):
        summary.panels(TEXT.replace("| x.T + y |", "| x.T - y |", 1))


def test_the_picture_has_the_bars(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    summary.draw(summary.panels(TEXT), tmp_path / "again.svg")
    again, kept = ((tmp_path / "again.svg"), summary.PICTURE)
    for panel in summary.panels(TEXT):
        for name in (panel.title, *panel.names, *panel.values):
            assert f">{name}<" in again.read_text(encoding="utf-8")
            assert f">{name}<" in kept.read_text(encoding="utf-8"), "python -m benchmarks.summary"
