"""``kspec trace``: what programs ask for becomes what specs say, and nothing else in them changes."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kspec.build.load import import_package
from kspec.build.project import build_project
from kspec.build.settings import load_settings
from kspec.build.tools import trace
from kspec.errors import SpecError
from kspec.model.stages import Specialization
from kspec.runtime.driver.device import HOST
from kspec.runtime.kernels import tracing
from kspec.spec.loader import load_specs
from tests.projects import ROOT, environment, write_project

MANY = """\
doc = "Kernels that list what they have in all ways there are."

[elementwise.lists]
inputs    = ["S x", "T y"]
outputs   = "float64 z"
operation = "z = x + y"
types     = {S = ["i1"], T = ["float32"]}  # small

[elementwise.rows]
inputs = "S x, T y"
outputs = "float64 z"
operation = "z = x + y"
types = [
  # as the sensor sends them
  { S = "int8", T = "float32" },  # old
  { S = "int16", T = "float64" }  # new
]

[elementwise.plain]
inputs = "T x"
outputs = "T y"
operation = "y = x"
types = { T = "float32" }

[elementwise.lazy]
inputs = "T x"
outputs = "T y"
operation = "y = x"

[elementwise.table]
inputs = "S x, T y"
outputs = "float64 z"
operation = "z = x + y"
[elementwise.table.types]
S = ["int8"]
T = [
  "float32",
]

[elementwise.indexed]
inputs = "raw float32 x"
outputs = "float32 y"
operation = "y = x[i]"

[elementwise.near]
inputs = "T u"
outputs = "T v"
windows = { u = { reach = ["R", "N"], boundary = "wrap" } }
sizes = { R = [1, 2], N = 3 }  # taps
operation = "v = u(R, N)"
types = { T = "float32" }

[reduction.listed]
inputs = "T x"
outputs = "T y"
map = "x"
reduce = "a + b"
post_map = "y = a"
identity = 0
forms = ["scan"]  # does not commute
types = { T = "float32" }

[reduction.unlisted]
inputs = "T x"
outputs = "T y"
map = "x"
reduce = "a + b"
post_map = "y = a"
identity = 0
types = { T = "float32" }

[raw.scale]
code = "template <class T> __global__ void scale(T* x) { x[threadIdx.x] *= 2; }"
name_expressions = ["scale<float>", "scale<double>"]
params = "T* x"
"""


def row(kernel: str, layout: str = "Flat", device: str = "sm_90", **binding: str) -> trace.Record:
    return trace.Record("many", kernel, tuple(binding.items()), layout, "", device, "a.py:1")


def raw(expression: str) -> trace.Record:
    return trace.Record("many", "", (("T", "?"),), "", expression, "sm_90", "a.py:1")


@pytest.fixture
def many(tmp_path: Path) -> Path:
    folder = tmp_path / "many"
    (folder / "specs").mkdir(parents=True)
    (folder / "pyproject.toml").write_text('[project]\nname = "many"\n')
    (folder / "specs/many.toml").write_text(MANY)
    return folder


def proposed(folder: Path, *records: trace.Record, prune: bool = False) -> str:
    """Apply what some records lead to; return the lines that have changed."""
    settings = load_settings(folder)
    traces = trace.compare(load_specs(settings.spec_folder, folder), records)
    changes = trace.propose(settings, traces, prune)
    trace.apply(settings, changes)
    again = trace.compare(load_specs(settings.spec_folder, folder), records)
    assert not any(one.missing for one in again), "what was asked for is declared now"
    assert not prune or not any(one.unused for one in again)
    lines = "".join(change.diff() for change in changes).splitlines()[2:]
    return "\n".join(line for line in lines if line[0] in "+-")


def test_nothing_asked_for_beyond_the_specs(many: Path) -> None:
    assert proposed(many, row("plain", T="float32"), raw("scale<float>")) == ""
    assert proposed(many) == ""


def test_a_dtype_in_a_list(many: Path) -> None:
    assert proposed(many, row("lists", S="int16", T="float32")) == (
        '-types     = {S = ["i1"], T = ["float32"]}  # small\n'
        '+types     = {S = ["i1", "int16"], T = ["float32"]}  # small'
    )


def test_lists_become_rows_where_their_product_is_much_more(many: Path) -> None:
    wanted = [row("lists", S=one, T=one) for one in ("int16", "int32", "int64")]
    assert proposed(many, *wanted) == (
        '-types     = {S = ["i1"], T = ["float32"]}  # small\n'
        "+types     = [\n"
        '+    { S = "int8", T = "float32" },\n'
        '+    { S = "int16", T = "int16" },\n'
        '+    { S = "int32", T = "int32" },\n'
        '+    { S = "int64", T = "int64" },\n'
        "+]  # small"
    )


def test_a_row_among_rows(many: Path) -> None:
    assert proposed(many, row("rows", S="int8", T="int8")) == (
        '-  { S = "int16", T = "float64" }  # new\n'
        '+  { S = "int16", T = "float64" },  # new\n'
        '+  { S = "int8", T = "int8" }'
    )


def test_a_dtype_without_brackets(many: Path) -> None:
    assert proposed(many, row("plain", T="int8")) == (
        '-types = { T = "float32" }\n+types = { T = ["float32", "int8"] }'
    )


def test_a_kernel_without_types(many: Path) -> None:
    assert proposed(many, row("lazy", T="int8")) == '+types = { T = ["int8"] }'


def test_types_in_a_table_of_their_own(many: Path) -> None:
    wanted = [row("table", S=one, T=one) for one in ("int16", "int32", "int64")]
    assert proposed(many, *wanted) == (
        '-S = ["int8"]\n+S = ["int8", "int16", "int32", "int64"]\n'
        '+  "int16",\n+  "int32",\n+  "int64",'
    )


def test_an_instance_of_a_raw_kernel(many: Path) -> None:
    assert proposed(many, raw("scale<int>")).endswith(
        '+name_expressions = ["scale<float>", "scale<double>", "scale<int>"]'
    )


def test_a_layout(many: Path) -> None:
    assert proposed(many, row("indexed", "Flat, 3")) == '+layouts = ["Flat, 3"]'
    assert proposed(many, row("indexed", "Strided<64>, 1")) == (
        '-layouts = ["Flat, 3"]\n+layouts = ["Flat, 3", "Strided<64>, 1"]'
    )


def test_forms(many: Path) -> None:
    windows = row("unlisted", "Rolling<8, 1>", "host", T="float32")
    scan = row("unlisted", "ScanLines<8>", T="float32")
    assert proposed(many, scan, windows) == '+forms = ["reduce", "scan", "window"]'
    assert proposed(many, row("listed", "ScanColumns<8>", T="float32")) == ""
    assert proposed(many, row("listed", "SegmentLines<8>", T="float32")) == (
        '-forms = ["scan"]  # does not commute\n+forms = ["scan", "segments"]  # does not commute'
    )


def test_a_form_and_a_layout_of_it(many: Path) -> None:
    record = row("unlisted", "ScanLines<64>", T="float32")
    assert proposed(many, record) == ('+forms = ["reduce", "scan"]\n+layouts = ["ScanLines<64>"]')


def test_what_is_said_of_forms(many: Path) -> None:
    files = load_specs(load_settings(many).spec_folder, many)
    records = [row("unlisted", "SegmentColumns<8>", T="float32")]
    (one,) = [each for each in trace.compare(files, records) if each.called]
    assert [str(want) for want in one.missing] == ["form 'segments': once, from a.py:1"]
    assert (one.forms, one.layouts) == (("segments",), ())


def near(**sizes: int) -> trace.Record:
    record = row("near", "Windows<2, 8>", T="float32")
    return replace(record, sizes=tuple(sizes.items()))


def test_sizes(many: Path) -> None:
    assert proposed(many, near(R=2, N=3)) == ""
    assert proposed(many, near(R=4, N=3), near(R=1, N=5)) == (
        "-sizes = { R = [1, 2], N = 3 }  # taps\n+sizes = { R = [1, 2, 4], N = [3, 5] }  # taps"
    )


def test_sizes_that_no_call_gave(many: Path) -> None:
    records = [near(R=4, N=3), near(R=2, N=3)]
    assert proposed(many, *records, prune=True).splitlines()[-1] == (
        "+sizes = { R = [2, 4], N = 3 }  # taps"
    )


def test_what_is_said_of_sizes(many: Path) -> None:
    files = load_specs(load_settings(many).spec_folder, many)
    one = next(each for each in trace.compare(files, [near(R=4, N=3)]) if each.name == "many.near")
    assert [str(want) for want in one.missing] == ["R = 4, N = 3: once, from a.py:1"]
    assert one.unused == ("R = 1", "R = 2")


def test_layouts_of_the_host_device_are_not_compiled_ahead(many: Path) -> None:
    assert proposed(many, row("indexed", "Strided<64>, 1", "host")) == ""


def test_pruning_takes_out_what_nobody_asked_for(many: Path) -> None:
    records = [row("rows", S="int16", T="float64"), raw("scale<double>"), row("plain", T="int8")]
    assert proposed(many, *records, prune=True) == (
        '-  { S = "int8", T = "float32" },  # old\n'
        '-types = { T = "float32" }\n'
        '+types = { T = ["int8"] }\n'
        '-name_expressions = ["scale<float>", "scale<double>"]\n'
        '+name_expressions = ["scale<double>"]'
    )


def test_kernels_that_were_not_called_are_left_alone(many: Path) -> None:
    records = [row("plain", T="float32")]
    assert proposed(many, *records, prune=True) == ""
    specs = load_specs(many / "specs", many)
    assert [one.name for one in trace.compare(specs, records) if one.called] == ["many.plain"]


def test_line_endings_stay(many: Path) -> None:
    path = many / "specs/many.toml"
    path.write_bytes(MANY.replace("\n", "\r\n").encode())
    proposed(many, row("lazy", T="int8"))
    assert path.read_bytes().count(b"\r\n") == path.read_bytes().count(b"\n")


def test_a_package_older_than_its_specs_is_no_reason_to_fail(many: Path) -> None:
    assert proposed(many, row("plain", S="int8"), row("gone", T="int8")) == ""


def test_a_file_that_has_changed_since_is_not_written(many: Path) -> None:
    settings = load_settings(many)
    traces = trace.compare(load_specs(settings.spec_folder, many), [row("lazy", T="int8")])
    changes = trace.propose(settings, traces)
    path = many / "specs/many.toml"
    path.write_text(f"# mine\n{MANY}")
    with pytest.raises(SpecError, match="has changed since it was read"):
        trace.apply(settings, changes)
    assert path.read_text().startswith("# mine")


def test_specs_that_are_wrong_then_are_taken_back(many: Path) -> None:
    settings = load_settings(many)
    path = many / "specs/many.toml"
    change = trace.Change(path, "specs/many.toml", MANY, MANY.replace('"float32"', '"flaot"'))
    with pytest.raises(SpecError, match="flaot"):
        trace.apply(settings, [change])
    assert path.read_text() == MANY


PROGRAM = """\
import os, subprocess, sys
import numpy as np
from toy_kernels.squares import square
square(np.ones(3, np.int8))
square(np.ones((2, 3), np.float32).T)
if len(sys.argv) > 1:
    subprocess.run([sys.executable, __file__], check=True)
    os.kill(os.getpid(), 9) if sys.argv[1] == "kill" else sys.exit(int(sys.argv[1]))
"""


@pytest.fixture
def program(toy: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    build_project(toy, compiling=False)
    (toy / "main.py").write_text(PROGRAM)
    for name, value in environment(ROOT, toy / "generated").items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("KSPEC_JIT", raising=False)
    monkeypatch.chdir(toy)
    return toy / "main.py"


def test_a_program_and_its_children(run, program: Path, toy: Path) -> None:
    code, out, err = run("trace", "--", sys.executable, program, 7)
    assert (code, err) == (7, "")
    assert "toy_kernels on host: 1 of 3 kernels called, 1 beyond what is precompiled" in out
    assert "  missing  T = int8: 2 times, from main.py:4\n" in out
    assert "  unused   T = int32\n" in out
    assert "never called: shifts.shift, squares.total" in out
    assert '+types = { T = ["float32", "int32", "int8"] }' in out
    assert "`kspec trace --apply` writes this" in out
    assert max(map(len, out.splitlines())) <= 80

    code, out, _ = run("trace", "--apply")
    assert code == 0 and "written: specs/squares.toml; now run `kspec build`" in out
    assert (
        'types = { T = ["float32", "int32", "int8"] }' in (toy / "specs/squares.toml").read_text()
    )
    code, out, _ = run("trace")
    assert code == 0 and "0 beyond what is precompiled" in out and "missing" not in out


def test_a_program_that_is_killed(run, program: Path) -> None:
    code, out, _ = run("trace", sys.executable, program, "kill")
    assert code == 128 + 9
    assert "missing  T = int8" in out


def test_records_of_programs_that_ran_elsewhere(
    run, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSPEC_TRACE", str(tmp_path / "records"))
    os.system(f"{sys.executable} {program}")
    code, out, _ = run("trace", "--records", tmp_path / "records")
    assert code == 0 and "missing  T = int8: once, from main.py:4" in out
    assert (tmp_path / "records").is_dir()
    assert run("trace", "--records", tmp_path / "none")[0] == 2
    assert run("trace", "--records", tmp_path, "true")[0] == 2


def test_a_command_that_calls_no_kernel(run, program: Path) -> None:
    code, out, err = run("trace", "--", sys.executable, "-c", "pass")
    assert (code, out) == (0, "") and "toy_kernels: no kernel was called" in err


def test_no_command_at_all(run, toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(toy)
    code, _, err = run("trace")
    assert code == 2 and "nothing was traced yet; run `kspec trace -- pytest`" in err
    code, _, err = run("trace", "--", toy / "nothing")
    assert code == 3 and "No such file" in err


class TestRecording:
    @pytest.fixture
    def place(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("KSPEC_TRACE", str(tmp_path / "records"))
        return tmp_path / "records"

    def lines(self, place: Path) -> list[dict[str, object]]:
        return [
            json.loads(line) for one in place.iterdir() for line in one.read_text().split("\n")[:-1]
        ]

    def test_only_the_first_call_of_each_specialization_is_recorded(
        self, toy: Path, place: Path
    ) -> None:
        build_project(toy, compiling=False)
        square = import_package(toy / "generated/toy_kernels").squares.square
        for _ in range(5):
            square(np.ones(3))
        square(np.ones((3, 3))[:, ::2])
        first, second = self.lines(place)
        assert first["call"] == f"{Path(__file__).relative_to(Path.cwd())}:{self.line_of_loop()}"
        assert (first["layout"], second["layout"]) == ("Flat", "Strided<8>")
        assert first["binding"] == [["T", "float64"]]
        assert first["device"] == "host"

    def line_of_loop(self) -> int:
        lines = Path(__file__).read_text().splitlines()
        return next(
            k for k, line in enumerate(lines, 1) if "            square(np.ones(3))" in line
        )

    def test_missing_instances_of_raw_kernels_are_recorded(self, many: Path, place: Path) -> None:
        build_project(many, compiling=False)
        scale = import_package(many / "generated/many_kernels").many.scale
        with pytest.raises(TypeError, match="no instance for T=int32"):
            scale((1,), (1,), np.ones(1, np.int32))
        (line,) = self.lines(place)
        assert line["expression"] == "scale<int>"
        settings = load_settings(many)
        records = trace.read_records(place, settings.package_name)
        found = trace.compare(load_specs(settings.spec_folder, many), records)
        assert [str(want.text) for one in found for want in one.missing] == ["scale<int>"]

    def test_broken_lines_and_other_packages_are_left_out(self, place: Path) -> None:
        tracing.record(Path("/p/mine"), "m", Specialization("f"), HOST)
        tracing.record(Path("/p/other"), "m", Specialization("f"), HOST)
        with next(place.iterdir()).open("a") as file:
            file.write('{"package": "mine"}\n[]\n{"package": "mi')
        assert [one.kernel for one in trace.read_records(place, "mine")] == ["f"]

    def test_a_folder_that_can_not_be_written(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("KSPEC_TRACE", str(tmp_path / "file"))
        tracing.record(Path("/p/mine"), "m", Specialization("f"), HOST)
        assert "file cannot be written" in capsys.readouterr().err


def test_the_toy_project_is_as_it_was(tmp_path: Path) -> None:
    """Reading a trace writes nothing."""
    toy = write_project(tmp_path)
    settings = load_settings(toy)
    records = [trace.Record("squares", "square", (("T", "int8"),), "Flat", "", "host", "a.py:1")]
    before = (toy / "specs/squares.toml").read_bytes()
    trace.propose(settings, trace.compare(load_specs(settings.spec_folder, toy), records))
    assert (toy / "specs/squares.toml").read_bytes() == before
