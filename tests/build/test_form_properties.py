"""``kspec test`` of forms: what calls are drawn, what they are compared with, what is found."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kspec.build.project import build_project, plan_project
from kspec.build.properties import runner
from kspec.build.properties.case import Case
from kspec.build.properties.form_strategies import form_cases, keys_out_of_range
from kspec.build.properties.forms import FormPiece, comparable_forms, pieces_of, slack
from kspec.errors import SpecError
from kspec.model.forms.kinds import FORMS
from kspec.model.forms.sliding import BOUNDARIES
from kspec.runtime.driver.device import HOST
from kspec.spec.models import ReductionSpec
from tests.build.test_properties import drawn_from
from tests.forms import reference
from tests.forms.test_by_key import INDICES as INTEGERS
from tests.forms.test_window import rolling
from tests.projects import ROOT, environment, generated_package, write_project

FIELDS: dict[str, Any] = {
    "name": "f",
    "inputs": "T x",
    "outputs": "T y",
    "map": "x",
    "reduce": "a + b",
    "post_map": "y = a",
    "identity": 0,
    "types": {"T": ["float64"]},
    "forms": list(FORMS),
    "reference": "x.sum(axis=axis, keepdims=keepdims)",
}


def spec_of(**fields: Any) -> ReductionSpec:
    return ReductionSpec(**{**FIELDS, **fields})


def drawn(form: str, count: int = 60, **fields: Any) -> list[Case]:
    """Return cases as a run of this many examples sees them."""
    return drawn_from(form_cases(spec_of(**fields), f"m.f.{form}", form), count)


class TestArguments:
    def test_scans(self) -> None:
        found = drawn("scan")
        keywords = [dict(case.keywords) for case in found]
        ways = {(one["exclusive"], one["reverse"]) for one in keywords}
        assert ways == {(a, b) for a in (True, False) for b in (True, False)}
        assert any(one["axis"] < 0 for one in keywords) and any(one["axis"] for one in keywords)
        assert any(0 in case.loop for case in found), "empty"
        assert any(case.out == ("y",) for case in found), "an output that is given"
        assert any(not case.operands[0].layout.is_plain for case in found)
        assert all(case.loop for case in found), "one axis at least"

    def test_exclusive_scans_need_an_identity(self) -> None:
        found = drawn("scan", 30, identity=None, forms=["scan"])
        assert not any(dict(case.keywords)["exclusive"] for case in found)

    def test_places_along_the_axis_are_no_others_in_a_piece(self) -> None:
        scans = drawn("scan", 30, map="x * _J")
        assert not any(dict(case.keywords)["reverse"] for case in scans)
        windows = drawn("window", 30, map="x * _J")
        assert "shrink" not in {dict(case.keywords)["boundary"] for case in windows}

    def test_segments(self) -> None:
        found = drawn("segments", 80)
        rows = [(case.loop[0], case.operands[1]) for case in found]
        assert all(case.order == ("x", "indptr") for case in found)
        pairs = [(extent, one.content().tolist()) for extent, one in rows]
        assert all(bounds == sorted(bounds) and bounds[-1] <= n for n, bounds in pairs)
        assert any(bounds[0] > 0 for _, bounds in pairs), "elements before the first"
        assert any(bounds[-1] < n for n, bounds in pairs), "elements behind the last"
        assert any(bounds == [0, n] for n, bounds in pairs if n > 1000), "one of all"
        assert any(len(set(bounds)) < len(bounds) for _, bounds in pairs), "empty ones"
        assert any(len(bounds) > 100 for _, bounds in pairs), "many"
        assert any(len(bounds) == 1 for _, bounds in pairs), "none"
        assert {one.dtype for _, one in rows} >= {"int64", "int32", "uint32", "uint8"}
        assert any(not one.layout.is_plain for _, one in rows)

    def test_keys(self) -> None:
        found = drawn("by_key", 200)
        keywords = [dict(case.keywords) for case in found]
        rows = [
            (case.operands[1], one["n"], case.operands[1].content().tolist())
            for case, one in zip(found, keywords, strict=True)
        ]
        assert all(case.order == ("x", "keys") for case in found)
        assert all(
            keys.shape == case.loop[:1] for case, (keys, _, _) in zip(found, rows, strict=True)
        )
        assert {keys.dtype for keys, _, _ in rows} == set(INTEGERS)
        assert {one["deterministic"] for one in keywords} == {True, False}
        assert {0, 1, 5000} <= {n for _, n, _ in rows}
        assert any(case.out == ("y",) for case in found), "an output that is given"
        assert any(not keys.layout.is_plain for keys, _, _ in rows)
        many = [(n, keys) for _, n, keys in rows if len(keys) > 200 and n > 1]
        assert any(keys == sorted(keys) and len(set(keys)) > 2 for _, keys in many), "sorted"
        assert any(keys != sorted(keys) and len(set(keys)) > 2 for _, keys in many), "unsorted"
        assert any(set(keys) == {keys[0]} <= set(range(n)) for n, keys in many), "one for all"
        assert any(set(range(n)).isdisjoint(keys) for n, keys in many), "none in range"
        assert any(min(keys) < 0 < n <= max(keys) for n, keys in many), "some out of range"
        assert any(set(keys) == set(range(n)) for _, n, keys in rows if n > 1), "rows for each"
        assert any(len(keys) < n / 100 for _, n, keys in rows), "most outputs have none"
        assert any(len(keys) == 1 for _, _, keys in rows), "a single row"
        assert any(key % 2**8 < n < key for _, n, keys in rows for key in keys), "in range if cut"

    def test_strict_keys(self) -> None:
        found = drawn("by_key", 60, strict_keys=True)
        rows = [(dict(case.keywords)["n"], case.operands[1].content()) for case in found]
        assert all(set(keys.tolist()) <= set(range(n)) for n, keys in rows)
        assert any(len(set(keys)) > 2 for _, keys in rows)

    @pytest.mark.parametrize("dtype", INTEGERS)
    @pytest.mark.parametrize("n", [0, 1, 12, 200, 5000])
    def test_keys_out_of_range(self, dtype: str, n: int) -> None:
        keys = keys_out_of_range(dtype, n)
        assert np.array(keys, "int64").astype(dtype).tolist() == keys
        assert set(range(n)).isdisjoint(keys)
        assert (min(keys, default=0) < 0) == (dtype[0] == "i")

    @pytest.mark.parametrize(
        "fields",
        [
            {"reduce": "a != 0 ? a : b"},
            {"reduce_type": "Affine", "preamble": "struct Affine { double a, b; };"},
            {"reduce": "max(a, b)", "preamble": "double max(double a, double b) { return a; }"},
        ],
        ids=str,
    )
    def test_rows_keep_their_order_unless_it_is_known_not_to_matter(
        self, fields: dict[str, Any]
    ) -> None:
        found = drawn("by_key", 30, **fields)
        assert {dict(case.keywords)["deterministic"] for case in found} == {True}

    def test_windows(self) -> None:
        found = drawn("window")
        keywords = [dict(case.keywords) for case in found]
        assert {one["boundary"] for one in keywords} == set(BOUNDARIES)
        assert {one["step"] for one in keywords} >= {1, 2, 3}
        assert any(isinstance(one["axis"], tuple) for one in keywords), "several axes"
        sizes = [
            (case.loop[one["axis"]], one["size"])
            for case, one in zip(found, keywords, strict=True)
            if isinstance(one["axis"], int)
        ]
        assert any(size > extent for extent, size in sizes), "wider than the axis"

    def test_fixed_shapes(self) -> None:
        example = {"shapes": {"x": [6, 5]}, "axis": 1, "fixed_shapes": True}
        found = drawn("scan", 30, example=example)
        assert {case.loop for case in found} == {(6, 5)}
        assert {dict(case.keywords)["axis"] for case in found} == {1}


@pytest.mark.parametrize(
    ("fields", "forms"),
    [
        ({}, FORMS),
        ({"forms": ["scan"]}, ("scan",)),
        ({"map": "x * _i"}, ("reduce", "scan")),
        ({"inputs": "T x, raw T w", "map": "x * w[_segment]"}, ("reduce", "scan")),
        ({"post_map": "y = a / (_in_ind.size() / _out_ind.size())"}, FORMS),
        ({"map": "x * _J"}, ("reduce", "scan", "segments", "window")),
        ({"post_map": "y = a / _in_ind.size()"}, ("reduce",)),
    ],
    ids=str,
)
def test_forms_that_a_reference_knows(fields: dict[str, Any], forms: tuple[str, ...]) -> None:
    assert comparable_forms(spec_of(**fields)) == forms


class TestPieces:
    """Sums of the pieces are what other loops make."""

    X = reference.integers(6, 5)

    def sums(self, form: str, indices: Any = (), **keywords: Any) -> Any:
        shape, pieces = pieces_of(form, self.X.shape, keywords, indices)
        found = np.full(shape, -999)
        for piece in pieces:
            found[piece.place] = piece.of(self.X).sum(axis=piece.axes)
        return found

    @pytest.mark.parametrize("axis", [0, 1, -1])
    @pytest.mark.parametrize("exclusive", [False, True])
    @pytest.mark.parametrize("reverse", [False, True])
    def test_scans(self, axis: int, exclusive: bool, reverse: bool) -> None:
        keywords = {"axis": axis, "exclusive": exclusive, "reverse": reverse}
        wanted = reference.scanned_sum(self.X, **keywords)
        np.testing.assert_array_equal(self.sums("scan", **keywords), wanted)

    @pytest.mark.parametrize("bounds", [[0, 2, 2, 6], [1, 3], [4], [6, 6], list(range(7))])
    def test_segments(self, bounds: list[int]) -> None:
        np.testing.assert_array_equal(self.sums("segments", bounds), reference.sums(self.X, bounds))

    @pytest.mark.parametrize("keys", [[0] * 6, [2, 0, 1, 2, 0, 2], [-1, 3, 2, 99, 1, -3], [5] * 6])
    @pytest.mark.parametrize("n", [0, 1, 3])
    def test_keys(self, keys: list[int], n: int) -> None:
        wanted = reference.sums_by_key(self.X, np.array(keys), n)
        np.testing.assert_array_equal(self.sums("by_key", keys, n=n), wanted)

    @pytest.mark.parametrize("boundary", BOUNDARIES)
    @pytest.mark.parametrize("step", [1, 2])
    def test_windows(self, boundary: str, step: int) -> None:
        for axis, size in ((0, 3), (1, 2)):
            wanted = rolling(self.X, [size], [axis], boundary, [step])
            keywords = {"size": size, "axis": axis, "step": step, "boundary": boundary}
            np.testing.assert_array_equal(self.sums("window", **keywords), wanted)
        wanted = rolling(self.X, [2, 3], [1, 0], boundary, [1, step])
        keywords = {"size": (2, 3), "axis": (-1, 0), "step": (1, step), "boundary": boundary}
        np.testing.assert_array_equal(self.sums("window", **keywords), wanted)

    def test_a_reversed_scan_has_the_last_element_first(self) -> None:
        _, pieces = pieces_of("scan", (4,), {"axis": 0, "exclusive": True, "reverse": True})
        assert [one.of(np.arange(4)).tolist() for one in pieces] == [[3, 2, 1], [3, 2], [3], []]
        assert pieces[1].source == "[2:4][::-1]" and pieces[1].place_source == "[1]"
        assert [one.count for one in pieces] == [3, 2, 1, 0]

    def test_only_some_of_very_many(self) -> None:
        _, pieces = pieces_of("segments", (5000,), {}, list(range(5001)))
        assert len(pieces) == 512 and pieces[0].place == (0,) and pieces[-1].place == (4999,)

    def test_only_some_of_very_many_keys(self) -> None:
        _, pieces = pieces_of("by_key", (3,), {"n": 5000}, [4321, 7, 4321])
        found = [(one.place, one.count) for one in pieces if one.count]
        assert found == [((7,), 1), ((4321,), 2)], "those with rows are among them"
        assert len(pieces) == 258 and pieces[0].place == (0,) and pieces[-1].place == (4999,)
        _, pieces = pieces_of("by_key", (4000,), {"n": 5000}, list(range(4000)))
        assert [sum(one.count == count for one in pieces) for count in (0, 1)] == [256, 256]

    def test_errors_grow_with_the_number_of_elements(self) -> None:
        def of(count: int) -> float:
            return slack([FormPiece((), (), 1), FormPiece((), (), count)])

        assert (of(0), of(16), of(400), slack([])) == (1, 1, 5, 1)


SPEC = (
    """\
[reduction.added]
inputs = "T x"
outputs = "T y"
map = "x"
reduce = "a + b"
post_map = "y = a"
identity = 0
forms = ["reduce", "scan", "segments", "by_key", "window"]
types = { T = ["float64"] }
reference = "x.sum(axis=axis, keepdims=keepdims)"

[reduction.not_absolute]
inputs = "T x"
outputs = "T y"
map = "x"
reduce = "a + b"
post_map = "y = a"
identity = 0
forms = ["by_key"]
types = { T = ["float64"] }
reference = "np.abs(x).sum(axis=axis, keepdims=keepdims)"
example = { special_values = false }

[reduction.first]
doc = "The first element that is not zero; the reference refuses no elements."
inputs = "T x"
outputs = "T y"
map = "x"
reduce = "a != 0 ? a : b"
post_map = "y = a"
identity = 0
forms = ["by_key"]
types = { T = ["float64"] }
reference = """
    + "'''"
    + """
np.take_along_axis(x, np.expand_dims((x != 0).argmax(axis), axis), axis).squeeze(axis)
"""
    + "'''"
    + """

[reduction.not_associative]
inputs = "T x"
outputs = "T y"
map = "x"
reduce = "b - a"
post_map = "y = a"
forms = ["scan"]
types = { T = ["float64"] }
reference = "x.sum(axis=axis, keepdims=keepdims)"

[reduction.moments]
inputs = "T x, T w"
outputs = "double mean, int64 count"
preamble = """
    + "'''"
    + """
struct Sum { double value, weight; long long count; };
__device__ Sum operator+(Sum a, Sum b) {
  return Sum{a.value + b.value, a.weight + b.weight, a.count + b.count};
}
"""
    + "'''"
    + """
map = "Sum{x * w, w, 1}"
reduce = "a + b"
post_map = "mean = a.value / a.weight; count = a.count"
identity = "Sum{0, 0, 0}"
reduce_type = "Sum"
forms = ["scan", "segments", "by_key", "window"]
types = { T = ["float64"] }
reference = """
    + "'''"
    + """
(
    (x * w).sum(axis=axis, keepdims=keepdims) / np.broadcast_arrays(w, x)[0].sum(axis=axis, keepdims=keepdims),
    np.ones_like(x * w, np.int64).sum(axis=axis, keepdims=keepdims),
)
"""
    + "'''"
    + """
example = { low = 1.0, high = 2.0, special_values = false }
"""
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_project(tmp_path_factory.mktemp("properties"), sums=SPEC)
    build_project(folder, compiling=False)
    return folder


@pytest.fixture(scope="module")
def package(project: Path) -> Any:
    return generated_package(project)


def subjects_of(project: Path, package: Any, *names: str) -> list[runner.Subject]:
    return runner.subjects(plan_project(project), package, names)


def test_names(project: Path, package: Any) -> None:
    found = [one.name for one in subjects_of(project, package, "sums.added")]
    assert found == ["sums.added", *(f"sums.added.{form}" for form in FORMS[1:])]
    (one,) = subjects_of(project, package, "added.scan")
    assert (one.name, one.form) == ("sums.added.scan", "scan")
    (one,) = subjects_of(project, package, "sums.added.window")
    assert one.function.__name__ == "window"
    with pytest.raises(SpecError, match="no kernel 'not_associative\\.window'"):
        subjects_of(project, package, "not_associative.window")


@pytest.mark.parametrize(
    "name", [*(f"added.{form}" for form in FORMS if form != "reduce"), "first.by_key"]
)
def test_right_forms(project: Path, package: Any, name: str) -> None:
    (subject,) = subjects_of(project, package, name)
    outcome = runner.test_kernel(subject, HOST, 25)
    assert (outcome.problem, outcome.reproducer) == ("", "")
    assert outcome.examples == 25 and outcome.kernel == f"sums.{name}"


@pytest.mark.parametrize("form", ["scan", "segments", "by_key", "window"])
def test_structs_broadcasting_and_several_outputs(project: Path, package: Any, form: str) -> None:
    (subject,) = subjects_of(project, package, f"moments.{form}")
    outcome = runner.test_kernel(subject, HOST, 15)
    assert outcome.problem == ""


@pytest.mark.parametrize(
    ("name", "form", "call"),
    [
        ("not_associative", "scan", "scan(x, axis="),
        ("not_absolute", "by_key", "by_key(x, keys, n=1, deterministic=True"),
    ],
)
def test_a_wrong_form(project: Path, package: Any, name: str, form: str, call: str) -> None:
    (subject,) = subjects_of(project, package, f"{name}.{form}")
    outcome = runner.test_kernel(subject, HOST, 25)
    assert outcome.problem.startswith(f"{form}: error ") and " at [" in outcome.problem
    program = outcome.reproducer
    assert f"got = sums.{name}.{call}" in program
    assert program.startswith(f"# {form}: error ")
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(ROOT, project / "generated"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1 and "AssertionError" in done.stderr, done.stderr


class Wrong:
    """A method of a generated function whose outputs are not those of the kernel."""

    def __init__(self, method: Any, change: Any) -> None:
        self._method, self._change = method, change

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self._change(self._method(*args, **keywords))


def refuse(y: Any) -> Any:
    raise ValueError("no such call")


@pytest.mark.parametrize(
    ("form", "change", "problem"),
    [
        ("segments", lambda y: np.where(np.arange(len(y)) == 1, 99, y.T).T, "segments: error "),
        ("segments", lambda y: y[1:], "segments: the result has shape "),
        ("by_key", lambda y: np.where(np.arange(len(y)) == 1, 99, y.T).T, "by_key: error "),
        ("by_key", lambda y: y[1:], "by_key: the result has shape "),
        ("window", lambda y: (y, y), "window: the reference has 1 results, the kernel has 2"),
        ("scan", lambda y: np.full_like(y, np.nan), "scan: a result is NaN or infinite where"),
        ("scan", refuse, "scan: ValueError: no such call"),
    ],
)
@pytest.mark.usefixtures("unshrunk")
def test_messages(project: Path, package: Any, form: str, change: Any, problem: str) -> None:
    (subject,) = subjects_of(project, package, f"added.{form}")
    wrong = replace(subject, function=Wrong(subject.function, change))
    outcome = runner.test_kernel(wrong, HOST, 25)
    assert problem in outcome.problem
    assert f"sums.added.{form}(x, " in outcome.reproducer


def from_the_end(x: Any, keys: Any, n: int) -> Any:
    """Return the arguments as `numpy.add.at` takes negative keys."""
    keys = keys.astype("int64")
    return x, np.where(keys < 0, keys + n, keys)


def cut(x: Any, keys: Any, n: int) -> Any:
    return x, keys.astype("int8")


def without_the_last_row(x: Any, keys: Any, n: int) -> Any:
    return x, np.where(np.arange(len(keys)) == len(keys) - 1, -1, keys)


def without_row_1000(x: Any, keys: Any, n: int) -> Any:
    return x, np.where(np.arange(len(keys)) == 1000, -1, keys)


def backwards(x: Any, keys: Any, n: int) -> Any:
    return x[::-1], keys[::-1]


@pytest.mark.parametrize(
    ("kernel", "change", "rows"),
    [
        ("added", from_the_end, 1),
        pytest.param("added", cut, 1, marks=pytest.mark.slow),
        ("added", without_the_last_row, 1),
        pytest.param("added", without_row_1000, 1023, marks=pytest.mark.slow),
        pytest.param("first", backwards, 2, marks=pytest.mark.slow),
    ],
)
def test_wrong_keys(
    project: Path, package: Any, kernel: str, change: Callable[..., Any], rows: int
) -> None:
    """They are found, and end as a small call."""
    (subject,) = subjects_of(project, package, f"{kernel}.by_key")

    def wrong(x: Any, keys: Any, n: int, **keywords: Any) -> Any:
        return subject.function(*change(x, keys, n), n, **keywords)

    outcome = runner.test_kernel(replace(subject, function=wrong), HOST, 100)
    assert outcome.problem.startswith("by_key: ") and " at [" in outcome.problem
    (found,) = re.findall(r"^keys = np.zeros\(\((\d+),", outcome.reproducer, re.MULTILINE)
    assert int(found) == rows, outcome.reproducer
    assert f"got = sums.{kernel}.by_key(x, keys, n=" in outcome.reproducer


def test_the_command(run, project: Path) -> None:
    arguments = ("--project", project, "--examples", 5, "--device", "host")
    code, out, err = run("test", "added.scan", "not_associative", *arguments)
    assert code == 1 and "evaluating the reference of 2 kernels" in out
    rows = [line.split() for line in out.splitlines() if line.startswith(" sums.")]
    assert [row[0] for row in rows] == ["sums.added.scan", "sums.not_associative.scan"]
    assert [row[1] for row in rows] == ["5", "failed"]
    assert "# sums.not_associative.scan on host fails:\n# scan: error" in out
    assert "kspec: 1 of 2 fail" in err
