"""Results: targets, fractions, and the JSON that survives an interrupted run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.report import line, markdown
from benchmarks.results import (
    Figure,
    Journal,
    Overhead,
    Results,
    Scaling,
    Throughput,
    dump,
    fraction,
    is_met,
    joined,
    load,
)
from benchmarks.timing import Sample


def once(seconds: float) -> Sample:
    return Sample(seconds, seconds / 2, 3)


COPY = once(1.0)
EMPTY = Results("cuda", "GPU", "2026-01-02", {"kspec": "1"}, 1000, copy=COPY, copy_bytes=1000)
ROW = Throughput(
    "elementwise", "f32", "k", "float32[10]", 1000, 10, 2, {"kspec": once(1.1), "CuPy": once(2.2)}
)
PAIR = {"kspec 1": Sample(2.0, 1.9, 5), "kspec 2": Sample(2.5, 2.4, 5)}
FULL = replace(
    EMPTY,
    throughput=(
        ROW,
        replace(ROW, name="wrong", samples={}, problem="WRONG RESULT: 3", notes=("n",)),
    ),
    overhead=(Overhead("given", {"kspec": once(1e-6)}, 0.75, "CuPy"),),
    figures=(Figure("build", "all", 1.5, "s", 2.0),),
    scaling=(Scaling("gpus", "norm, weak", "GPU", 2**30, True, PAIR, "CuPy"),),
    missing=("torch is left out: why",),
)


class TestJoined:
    def test_rows_of_all_runs_are_there(self) -> None:
        calls = replace(EMPTY, overhead=FULL.overhead, copy=None, copy_bytes=0, seconds=2.0)
        cases = replace(EMPTY, throughput=FULL.throughput, seconds=3.0, copy_after=once(2.0))
        starts = replace(EMPTY, figures=FULL.figures, missing=FULL.missing, copy=once(4.0))
        whole = joined([calls, cases, starts])
        assert whole.overhead == FULL.overhead and whole.figures == FULL.figures
        assert whole.throughput == FULL.throughput and whole.missing == FULL.missing
        assert (whole.copy, whole.copy_bytes, whole.copy_after) == (COPY, 1000, None)
        assert (whole.seconds, whole.runs) == (5.0, 3)
        assert "3 runs of `python -m benchmarks`, 5 s." in markdown(whole)
        assert joined([FULL]) == FULL

    @pytest.mark.parametrize("changed", [{"name": "other"}, {"elements": 7}, {"versions": {}}])
    def test_other_machines_are_refused(self, changed: dict[str, object]) -> None:
        with pytest.raises(ValueError, match="runs of different machines, versions or sizes"):
            joined([FULL, replace(EMPTY, **changed)])  # type: ignore[arg-type]


class TestJson:
    def test_load_undoes_dump(self) -> None:
        assert load(dump(FULL)) == FULL
        assert load(dump(replace(EMPTY, copy=None))).copy is None

    @pytest.mark.parametrize("text", ["{}", "[]", '{"schema": 99}'])
    def test_other_files_are_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match="not the results of a run"):
            load(text)

    def test_every_row_is_on_disk_at_once(self, tmp_path: Path) -> None:
        path = tmp_path / "new" / "results.json"
        journal = Journal(EMPTY, path)
        for number, row in enumerate(
            (*FULL.throughput, *FULL.overhead, *FULL.figures, *FULL.scaling)
        ):
            journal.add(row)
            kept = load(path.read_text(encoding="utf-8"))
            rows = (*kept.throughput, *kept.overhead, *kept.figures, *kept.scaling)
            assert len(rows) == number + 1
        journal.update(missing=FULL.missing)
        assert load(path.read_text(encoding="utf-8")) == FULL
        assert [one.name for one in path.parent.iterdir()] == ["results.json"]


class TestJudgement:
    def test_fractions(self) -> None:
        assert fraction(FULL, ROW, "copy") == pytest.approx(1 / 1.1)
        assert fraction(FULL, ROW, "CuPy") == pytest.approx(2.0)
        assert fraction(FULL, ROW, "f32") == pytest.approx(1.0)  # another case, by name
        assert fraction(FULL, ROW, "torch") is None
        assert fraction(FULL, FULL.throughput[1], "copy") is None

    @pytest.mark.parametrize(
        ("target", "of", "wanted"),
        [
            (None, "copy", None),
            (0.9, "copy", True),
            (0.95, "copy", False),
            (1.9, "CuPy", True),
            (2.1, "CuPy", False),
            (0.5, "torch", None),
        ],
    )
    def test_throughput(self, target: float | None, of: str, wanted: bool | None) -> None:
        assert is_met(FULL, replace(ROW, target=target, of=of)) is wanted

    @pytest.mark.parametrize(
        ("ours", "slack", "wanted"), [(7.5, 0.0, True), (7.6, 0.0, False), (7.6, 0.2e-6, True)]
    )
    def test_overhead(self, ours: float, slack: float, wanted: bool) -> None:
        samples = {"kspec": once(ours * 1e-6), "CuPy": once(10e-6)}
        row = Overhead("given", samples, 0.75, "CuPy", slack)
        assert is_met(FULL, row) is wanted
        assert row.ratio() == pytest.approx(ours / 10)
        assert is_met(FULL, replace(row, samples={"kspec": once(1.0)})) is None

    @pytest.mark.parametrize(
        ("limit", "at_least", "wanted"),
        [(None, False, None), (2.0, False, True), (1.0, False, False), (1.0, True, True)],
    )
    def test_figures(self, limit: float | None, at_least: bool, wanted: bool | None) -> None:
        assert is_met(FULL, Figure("build", "all", 1.5, "s", limit, at_least)) is wanted
        failed = Figure("build", "all", 0.0, "s", limit, at_least, problem="no compiler")
        assert is_met(FULL, failed) is None

    def test_problems(self) -> None:
        assert FULL.problems == ["elementwise/wrong: WRONG RESULT: 3"]


class TestScaling:
    def test_speedup(self) -> None:
        weak = FULL.scaling[0]
        assert weak.speedup() == pytest.approx(1.6)
        assert replace(weak, weak=False).speedup() == pytest.approx(0.8)
        assert weak.speedup("CuPy") is None

    def test_tables_have_both_numbers(self) -> None:
        text = markdown(FULL)
        assert "| what | 1 GPU | 2 GPUs | speed-up | CuPy, 1 | CuPy, 2 | speed-up |" in text
        assert "| norm, weak: 1 GiB | 2e+03 ms | 2.5e+03 ms | 1.60 | – | – | – |" in text
        assert line(FULL, FULL.scaling[0]).split() == [
            "norm,",
            "weak",
            "2e+03",
            "ms",
            "2.5e+03",
            "ms",
            "1.60",
        ]

    def test_results_of_older_runs_have_none(self) -> None:
        data = json.loads(dump(FULL))
        del data["scaling"]
        assert load(json.dumps(data)).scaling == ()
