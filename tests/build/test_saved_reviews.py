"""``kspec review --save``: the rows of the lock, budgets of specs, changes, and the page."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kspec.build.project import build_project, plan_project
from kspec.build.report import budgets, heat, locking
from kspec.build.report import lock as locks
from kspec.build.report.budgets import BudgetError
from kspec.build.report.changes import ReviewChange, regressions, review_changes
from kspec.build.report.lock import Lock, LockedKernel
from kspec.build.report.saved import SavedLine, SavedReview, with_review
from kspec.errors import ManifestError, SpecError
from kspec.runtime import package
from tests.build.test_diff import commit, git
from tests.projects import SHIFTS, SQUARES, write_project

FIGURES = {
    "sectors_per_request": 32.0,
    "conflicts": 1.5,
    "warp_efficiency": 31.5,
    "microseconds": 12.34,
    "of_copy": 0.12,
}
LINES = (
    SavedLine("specs/a.toml", 7, 'y[i] = "\\";', "global store, 32.0 sectors", 4096, 32.0),
    SavedLine("kspec/pack.cuh", 113, "", "global load, 4.0 sectors", 4096, 4.0),
    SavedLine("specs/a.toml", 8, "z = s[i];", "shared load, 2.5-way conflicts", 4096, 0.0, 1.5),
    SavedLine("", 0, "", "global load, 1.0 sectors", 4096, 1.0),
)
SAVED = SavedReview("H200", ("float32[64,64]", "axis=1"), "0123456789ab", FIGURES, LINES)
# A column of a matrix from global memory, and one of a tile of shared memory.
COLUMNS = """
[raw.columns]
code = '''
extern "C" __global__ void columns(const float* x, float* y) {
  __shared__ float tile[32][32];
  tile[threadIdx.x][threadIdx.y] = x[threadIdx.x * 32 + threadIdx.y];
  __syncthreads();
  y[threadIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
'''
params = ["const float* x", "float* y"]
budget = { BUDGET }
example = { shapes = { x = [32, 32], y = [32, 32] }, grid = [1], block = [32, 32] }
reference = "x"
"""


def lock_of(project: Path) -> Lock:
    found = locks.read_lock(project)
    assert found is not None
    return found


def reviews_of(project: Path, name: str) -> tuple[SavedReview, ...]:
    (found,) = (one for one in lock_of(project).kernels if one.name == name)
    return found.reviews


def save(project: Path, name: str, *reviews: SavedReview) -> None:
    """Write reviews of a kernel into the lock of a project, as of its source."""
    kernels = [
        replace(one, reviews=tuple(replace(new, source=one.source[:12]) for new in reviews))
        if one.name == name
        else one
        for one in lock_of(project).kernels
    ]
    (project / locks.FILE_NAME).write_text(locks.dump(Lock(tuple(kernels))), encoding="utf-8")


def with_columns(project: Path, budget: str) -> Path:
    return write_project(project, columns=COLUMNS.replace("BUDGET", budget))


class TestLock:
    LOCK = Lock((LockedKernel("a", "f", "nvrtc", "0123456789abcdef", (), (), (SAVED,)),))

    def test_loading_undoes_dumping(self) -> None:
        assert locks.load(locks.dump(self.LOCK)) == self.LOCK

    def test_a_line_for_each_line(self) -> None:
        lines = locks.dump(self.LOCK).splitlines()
        start = lines.index("reviews = [")
        assert lines[start + 1 : start + 4] == [
            '  { gpu = "H200", arguments = ["float32[64,64]", "axis=1"], source = "0123456789ab", '
            "sectors_per_request = 32.0, conflicts = 1.5, warp_efficiency = 31.5, "
            "microseconds = 12.34, of_copy = 0.12, lines = [",
            '    { at = "specs/a.toml:7", text = "y[i] = \\"\\\\\\";", '
            'note = "global store, 32.0 sectors", requests = 4096, sectors_per_request = 32.0 },',
            '    { at = "kspec/pack.cuh:113", note = "global load, 4.0 sectors", '
            "requests = 4096, sectors_per_request = 4.0 },",
        ]
        assert "requests = 4096, conflicts = 1.5 }," in lines[start + 4]
        assert '{ at = "?", note' in lines[start + 5]
        assert lines[start + 6 :] == ["  ] },", "]"]

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("conflicts = 1.5, warp", 'conflicts = "many", warp'),
            ("microseconds = 12.34, ", ""),
            ('gpu = "H200"', "gpu = 200"),
            ("specs/a.toml:7", "specs/a.toml:x"),
        ],
    )
    def test_damage_is_named(self, old: str, new: str) -> None:
        text = locks.dump(self.LOCK)
        assert old in text
        with pytest.raises(ManifestError, match=r"kspec.lock is damaged .*run `kspec build`"):
            locks.load(text.replace(old, new, 1))

    def test_a_new_review_goes_in_the_place_of_an_old_one(self) -> None:
        other = replace(SAVED, arguments=("float32[8]",))
        older = replace(SAVED, gpu="A100", source="ba9876543210")
        better = replace(SAVED, figures={**FIGURES, "conflicts": 0.0})
        assert with_review((older, SAVED, other), better) == (better, other)

    def test_the_worst_line(self) -> None:
        assert SAVED.worst("sectors_per_request") == LINES[0]
        assert SAVED.worst("conflicts") == LINES[2]
        assert SAVED.worst("warp_efficiency") is None


class TestSaving:
    def test_figures(self, run, toy: Path) -> None:
        with_columns(toy, "registers = 64")
        status, out, err = run("review", "columns", "--save", "--project", toy)
        assert status == 0, err
        assert out.endswith("written: kspec.lock\n")
        (saved,) = reviews_of(toy, "columns")
        assert saved.gpu == "H200"
        assert saved.arguments == ("float32[32,32]", "float32[32,32]")
        assert lock_of(toy).reviews.keys() == {("columns", "columns")}
        assert saved.figures["sectors_per_request"] == 32.0
        assert saved.figures["conflicts"] == 31.0
        assert saved.figures["warp_efficiency"] == 32.0
        assert saved.figures["microseconds"] > 1
        by_note = {one.note.partition(",")[0]: one for one in saved.lines}
        assert {note: one.place for note, one in by_note.items()} == {
            "global load": "specs/columns.toml:6",
            "shared store": "specs/columns.toml:6",
            "global store": "specs/columns.toml:8",
            "shared load": "specs/columns.toml:8",
        }
        load = by_note["global load"]
        assert load.requests == 32 and load.sectors_per_request == 32.0
        assert load.text == "tile[threadIdx.x][threadIdx.y] = x[threadIdx.x * 32 + threadIdx.y];"
        assert by_note["shared load"].conflicts == 31.0

    def test_equal_runs_write_equal_files(self, run, toy: Path) -> None:
        assert run("review", "--save", "--project", toy)[0] == 0
        assert {name for _, name in lock_of(toy).reviews} == {"shift", "square", "total"}
        before = (toy / locks.FILE_NAME).read_bytes()
        status, out, _ = run("review", "--save", "--project", toy)
        assert status == 0 and out.endswith("kspec.lock is up to date\n")
        assert (toy / locks.FILE_NAME).read_bytes() == before
        assert not build_project(toy).lock.written, "a build keeps them"
        assert run("check", "--project", toy)[0] == 0

    def test_json_has_the_output_for_itself(self, run, toy: Path) -> None:
        build_project(toy)
        status, out, _ = run("review", "square", "--save", "--format", "json", "--project", toy)
        assert status == 0
        assert [one["name"] for one in json.loads(out[out.index("[") :])] == ["squares.square"]
        assert not re.search("kspec.lock", out)

    def test_other_calls_and_kernels_stay(self, run, toy: Path) -> None:
        build_project(toy)
        save(toy, "total", SAVED)
        for arguments in ("float32[64]", "float32[4096]", "float32[64]"):
            call = ("--args", arguments, "--gpu", "A100", "--save", "--project", toy)
            assert run("review", "square", *call)[0] == 0
        assert [one.call for one in reviews_of(toy, "square")] == [
            ("A100", ("float32[4096]",)),
            ("A100", ("float32[64]",)),
        ]
        (kept,) = reviews_of(toy, "total")
        assert replace(kept, source=SAVED.source) == SAVED

    def test_a_changed_kernel_is_to_be_reviewed_again(self, run, toy: Path) -> None:
        build_project(toy)
        save(toy, "shift", SAVED)
        write_project(toy, shifts="# a line more\n" + SHIFTS)
        assert not build_project(toy).lock.note
        write_project(toy, shifts=SHIFTS.replace("+= AMOUNT", "-= AMOUNT"))
        for _ in range(2):
            note = build_project(toy).lock.note
            assert note == (
                "changed since they were reviewed; run `kspec review shifts.shift --save`"
            )
        assert len(reviews_of(toy, "shift")) == 1
        package.read_manifest.cache_clear()
        assert run("check", "--project", toy)[0] == 0, "there is no budget"
        assert run("review", "shift", "--save", "--project", toy)[0] == 0
        (saved,) = reviews_of(toy, "shift")
        assert saved.arguments == ("float32[100]", "100"), "the old one is gone"
        assert not build_project(toy).lock.note

    def test_kernels_that_are_not_precompiled(self, run, toy: Path) -> None:
        lazy = SQUARES.replace('types = { T = ["float32", "int32"] }\n', "")
        write_project(toy, squares=lazy)
        call = ("--args", "float32[8]", "--save", "--project", toy)
        status, _, err = run("review", "square", *call)
        assert status == 2
        assert err.splitlines()[-1] == (
            "kspec: not saved: squares.square; kspec.lock has precompiled kernels only, so list "
            "their 'types'"
        )


class TestBudgets:
    @pytest.fixture
    def columns(self, toy: Path) -> Path:
        with_columns(toy, "sectors_per_request = 4.5, conflicts = 0, registers = 64")
        build_project(toy)
        return toy

    def test_a_kernel_without_a_review(self, run, columns: Path) -> None:
        status, _, err = run("build", "--project", columns)
        assert status == 0
        assert err == (
            "specs/columns.toml:12:12: warning: columns: budget.sectors_per_request cannot be "
            "checked: there is no saved review of its present source\n"
            "    budget = { sectors_per_request = 4.5, conflicts = 0, registers = 64 }\n"
            "               ^^^^^^^^^^^^^^^^^^^\n"
            "    hint: run `kspec review columns.columns --save`\n"
        )
        status, out, err = run("check", "--project", columns)
        assert (status, out) == (1, "")
        assert ":12:12: error: columns: budget.sectors_per_request cannot be checked" in err
        assert run("build", "--no-compile", "--project", columns)[2] == ""

    def test_it_fails_by_name(self, run, columns: Path) -> None:
        status, out, err = run("review", "columns", "--save", "--project", columns)
        assert status == 2 and out.endswith("written: kspec.lock\n"), "saved all the same"
        text = (
            "specs/columns.toml:12:12: error: columns touches 32 sectors per request on H200, at "
            "specs/columns.toml:6; budget.sectors_per_request is 4.5\n"
            "    budget = { sectors_per_request = 4.5, conflicts = 0, registers = 64 }\n"
            "               ^^^^^^^^^^^^^^^^^^^\n"
            "    tile[threadIdx.x][threadIdx.y] = x[threadIdx.x * 32 + threadIdx.y];\n"
            "    reviewed with float32[32,32], float32[32,32]\n"
            "specs/columns.toml:12:39: error: columns needs 31 extra passes for bank conflicts on "
            "H200, at specs/columns.toml:6; budget.conflicts is 0\n"
        )
        assert text in err
        for command, code in (("build", 2), ("check", 1)):
            status, _, err = run(command, "--project", columns)
            assert status == code and text in err
        with pytest.raises(BudgetError) as caught:
            build_project(columns)
        assert [one.code for one in caught.value.diagnostics] == [
            "budget.sectors_per_request",
            "budget.conflicts",
        ]
        data = json.loads(run("check", "--format", "json", "--project", columns)[1])
        assert data["errors"] == 2

    def test_a_better_kernel_passes(self, run, columns: Path) -> None:
        run("review", "columns", "--save", "--project", columns)
        path = columns / "specs/columns.toml"
        text = path.read_text().replace("tile[32][32]", "tile[32][33]")
        text = text.replace(
            "x[threadIdx.x * 32 + threadIdx.y]", "x[threadIdx.y * 32 + threadIdx.x]"
        )
        path.write_text(text)
        status, _, err = run("build", "--project", columns)
        assert status == 0 and "no saved review of its present source" in err
        package.read_manifest.cache_clear()  # a process of its own reads it afresh
        status, _, err = run("review", "columns", "--save", "--project", columns)
        assert status == 0, err
        assert "changed since" not in err
        (saved,) = reviews_of(columns, "columns")
        assert saved.figures["sectors_per_request"] == 4.0 and saved.figures["conflicts"] == 0.0
        assert run("check", "--project", columns)[0] == 0
        assert run("build", "--project", columns)[2] == ""

    @pytest.mark.parametrize(
        ("budget", "message"),
        [
            ("warp_efficiency = 31.6", "columns keeps 31.5 of 32 threads active on H200; "),
            ("sectors_per_request = 31", "columns touches 32 sectors per request on H200, at "),
            ("conflicts = 1.4", "columns needs 1.5 extra passes for bank conflicts on H200, at "),
            ("warp_efficiency = 31.5", ""),
            ("sectors_per_request = 32, conflicts = 1.5", ""),
        ],
    )
    def test_bounds(self, toy: Path, budget: str, message: str) -> None:
        with_columns(toy, budget)
        build_project(toy)
        save(toy, "columns", SAVED)
        found = budgets.review_problems(plan_project(toy))
        assert [one.message[: len(message)] for one in found] == ([message] if message else [])
        assert not budgets.unreviewed(plan_project(toy))

    def test_a_table_of_its_own(self, toy: Path) -> None:
        more = SHIFTS + "\n[raw.shift.budget]\n# a comment\nconflicts = 0\nregisters = 1\n"
        write_project(toy, shifts=more)
        with pytest.raises(BudgetError) as caught:
            build_project(toy)
        text = str(caught.value)
        assert text.startswith("specs/shifts.toml:22:1: error: shift takes ")
        assert (
            " registers on sm_90; budget.registers is 1\n    registers = 1\n    ^^^^^^^^^" in text
        )

    def test_spills(self, toy: Path) -> None:
        with_columns(toy, "spills = 0, registers = 255")
        assert build_project(toy).lock.written

    def test_lazy_kernels_cannot_have_one(self, toy: Path) -> None:
        text = SQUARES.replace('types = { T = ["float32", "int32"] }', "budget = { conflicts = 0 }")
        write_project(toy, squares=text)
        build_project(toy)
        (found,) = budgets.unreviewed(plan_project(toy))
        assert found.message.endswith("it is not precompiled, so it has no saved reviews")
        assert found.hint == "list its 'types'"

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("budget = 4", "7:10: error: must be a table, not int"),
            (
                "budget = { conflict = 0 }",
                "7:12: error: unknown key 'conflict'; did you mean 'conflicts'?",
            ),
            ("budget = { conflicts = -1 }", "7:24: error: must be greater than or equal to 0"),
            ("budget = { conflicts = true }", "7:24: error: must be a number, not bool"),
            ("budget = { sectors_per_request = 0 }", "7:34: error: must be greater than 0"),
            ("budget = { sectors_per_request = inf }", "7:34: error: must be a finite number"),
            ("budget = { sectors_per_request = '4' }", "7:34: error: must be a number, not str"),
            ("budget = { warp_efficiency = 33 }", "7:30: error: must be less than or equal to 32"),
            ("budget = { conflicts = nan }", "7:24: error: must be a finite number"),
            ("budget = { registers = 2.5 }", "7:24: error: must be an integer, not float"),
            ("budget = { registers = 0 }", "7:24: error: must be greater than 0"),
            ("budget = { spills = -1 }", "7:21: error: must be greater than or equal to 0"),
        ],
    )
    def test_bad_budgets(self, toy: Path, line: str, message: str) -> None:
        write_project(
            toy, squares=SQUARES.replace('outputs = "T y"\n', f'outputs = "T y"\n{line}\n', 1)
        )
        with pytest.raises(SpecError, match=re.escape(f"specs/squares.toml:{message}")):
            plan_project(toy)


class TestChanges:
    WORSE = replace(
        SAVED,
        figures={**FIGURES, "sectors_per_request": 33.0, "of_copy": 0.1, "microseconds": 12.4},
    )

    @pytest.fixture
    def committed(self, toy: Path) -> Path:
        (toy / ".gitignore").write_text("*.fatbin\n.*.lock\n")
        build_project(toy)
        save(toy, "square", SAVED)
        git(toy, "init", "-q")
        commit(toy)
        return toy

    def test_values(self) -> None:
        def lock(one: SavedReview) -> Lock:
            return Lock((LockedKernel("a", "f", "nvrtc", "01", (), (), (one,)),))

        assert not [*review_changes(lock(SAVED), lock(SAVED))]
        assert not [*review_changes(None, lock(SAVED))]
        assert not [*review_changes(lock(replace(SAVED, gpu="A100")), lock(self.WORSE))]
        (found,) = review_changes(lock(SAVED), lock(self.WORSE))
        assert found == ReviewChange("a.f", *SAVED.call, FIGURES, self.WORSE.figures)
        assert found.delta("sectors_per_request") == 1.0 and found.delta("conflicts") == 0
        assert found.delta("of_copy") == -0.02 and found.is_worse("of_copy")
        assert found.is_worse("microseconds") and not found.is_worse("microseconds", 0.02)
        assert not found.is_worse("conflicts")

    def test_diff(self, run, committed: Path) -> None:
        assert "nothing has changed" in run("diff", "HEAD", "--project", committed)[1]
        save(committed, "square", self.WORSE)
        status, out, _ = run("diff", "HEAD", "--project", committed)
        assert status == 0
        assert "reviews, and how their figures have changed" in out
        row = next(line for line in out.splitlines() if "float32[64,64]" in line)
        assert "33 +1" in row and "12.4 +0.06" in row and "0.1 -0.02" in row
        assert max(map(len, out.splitlines())) <= 80
        data = json.loads(run("diff", "HEAD", "--format", "json", "--project", committed)[1])
        (one,) = data["reviews"]
        assert one["kernel"] == "squares.square" and one["gpu"] == "H200"
        assert one["arguments"] == ["float32[64,64]", "axis=1"]
        assert one["before"] == FIGURES and one["after"]["sectors_per_request"] == 33.0

    def test_check_warns(self, run, committed: Path) -> None:
        assert regressions(plan_project(committed)) == []
        save(committed, "square", self.WORSE)
        status, _, err = run("check", "--project", committed)
        assert status == 0
        assert err.splitlines() == [
            "specs/squares.toml:3: warning: squares.square: sectors_per_request has gone from 32 "
            "to 33 on H200 since the last commit, with float32[64,64], axis=1",
            "specs/squares.toml:3: warning: squares.square: of_copy has gone from 0.12 to 0.1 on "
            "H200 since the last commit, with float32[64,64], axis=1",
        ]
        commit(committed)
        assert run("check", "--project", committed)[2] == ""

    def test_without_git(self, toy: Path) -> None:
        build_project(toy)
        save(toy, "square", SAVED)
        assert regressions(plan_project(toy)) == []


class _Rows(HTMLParser):
    """Collects the cells of each row, and the heat of rows."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.heat: dict[str, str] = {}
        self._is_cell = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "tr":
            self.rows.append([])
        elif tag == "td":
            self.rows[-1].append("")
            self._is_cell = True
            style = given.get("style")
            if given.get("class") == "warm" and style:
                self.heat[self.rows[-1][0]] = style

    def handle_data(self, data: str) -> None:
        if self._is_cell:
            self.rows[-1][-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._is_cell = self._is_cell and tag != "td"


class TestPage:
    LINES = (
        SavedLine("specs/shifts.toml", 7, "if (i < n) x[i] += AMOUNT;", "global load", 64, 8.0),
        SavedLine("specs/shifts.toml", 6, "not there", "global load", 64, 4.0),
        SavedLine("specs/amount.cuh", 1, "#define AMOUNT 3", "shared <load>", 16, 0.0, 1.0),
        SavedLine("../secret", 1, "", "global load", 64, 4.0),
    )

    @pytest.fixture
    def page(self, run, toy: Path) -> str:
        build_project(toy)
        save(toy, "shift", replace(SAVED, lines=self.LINES))
        save_text = (toy / "specs/shifts.toml").read_text()
        (toy / "specs/shifts.toml").write_text("# moved\n\n" + save_text)
        (toy.parent / "secret").write_text("password\n")
        assert run("report", "--html", toy / "r.html", "--project", toy)[0] == 0
        return (toy / "r.html").read_text()

    def test_source_with_heat(self, page: str) -> None:
        assert "<h2>shifts.shift(float32[64,64], axis=1)</h2>" in page
        assert (
            "32 sectors per request of the worst line, 1.5 extra passes for bank conflicts, 31.5 "
            "of 32 threads active, about 12.34 µs on H200, 0.12 of a copy"
        ) in page
        assert "<h3>shift: specs/shifts.toml</h3>" in page
        assert "password" not in page and "not there" not in page
        parser = _Rows()
        parser.feed(page)
        moved = next(row for row in parser.rows if row[:1] == ["9"])
        assert moved == ["9", "100%", "  if (i < n) x[i] += AMOUNT;", "global load"]
        assert parser.heat["9"] == "--warm: 1.000"
        other = next(row for row in parser.rows if row[2:3] == ["#define AMOUNT 3"])
        assert other[1] == "25%" and other[3] == "shared <load>"

    def test_only_of_what_is_shown_and_present(self, run, toy: Path) -> None:
        build_project(toy)
        save(toy, "shift", replace(SAVED, lines=self.LINES))
        plan = plan_project(toy)
        assert len(heat.heat_sections(plan, lock_of(toy), ["shifts.shift"])) == 1
        assert not heat.heat_sections(plan, lock_of(toy), ["squares.square"])
        changed = locking.make_lock(plan, {})
        assert not changed.reviews
        stale = Lock(tuple(replace(one, source="ff") for one in lock_of(toy).kernels))
        assert not heat.heat_sections(plan, stale, ["shifts.shift"])
