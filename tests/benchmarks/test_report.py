"""Reports: text from the results of a GPU and of the host, and the pictures."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks import report
from benchmarks.plots import draw_plots
from benchmarks.results import Results, load
from tests.golden_cases import cases, read_case


def terminal(results: Results) -> str:
    blocks = []
    for section in ("elementwise", "reduction", "shipped"):
        rows = [row for row in results.throughput if row.group == section]
        if rows:
            lines = [report.line(results, row) for row in rows]
            blocks.append("\n".join([report.heading(results, section), *lines]))
    for name, others in (("overhead", results.overhead), ("build", results.figures)):
        if others:
            lines = [report.line(results, row) for row in others]
            blocks.append("\n".join([report.heading(results, name), *lines]))
    return "\n\n".join(blocks)


@pytest.mark.parametrize("path", cases("benchmarks"), ids=lambda path: path.stem)
def test_golden(path: Path, update_golden: bool) -> None:
    case = read_case(path)
    results = load(case.files["results.json"])
    shown = terminal(results)
    assert max(map(len, shown.splitlines())) <= 80
    case.check(f"{shown}\n\n{report.markdown(results)}", update_golden)


def test_markdown_tables_have_as_many_cells_as_titles() -> None:
    results = load(read_case(cases("benchmarks")[0]).files["results.json"])
    for block in report.markdown(results).split("\n\n"):
        rows = [line for line in block.splitlines() if line.startswith("|")]
        assert len({row.count("|") for row in rows}) <= 1, block


def test_plots(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    results = load(read_case(cases("benchmarks")[0]).files["results.json"])
    names = {path.name for path in draw_plots(results, tmp_path / "plots")}
    stems = ("bandwidth-elementwise", "bandwidth-reduction", "overhead", "roofline")
    assert names == {f"{stem}.{kind}" for stem in stems for kind in ("png", "svg")}
    svg = (tmp_path / "plots" / "bandwidth-elementwise.svg").read_text(encoding="utf-8")
    assert "row broadcast" in svg
    assert (tmp_path / "plots" / "roofline.png").read_bytes().startswith(b"\x89PNG")


def test_plots_need_matplotlib_only_when_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    results = load(read_case(cases("benchmarks")[0]).files["results.json"])
    with pytest.raises(ModuleNotFoundError, match="matplotlib"):
        draw_plots(results, tmp_path)
