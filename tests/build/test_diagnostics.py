"""What goes wrong in a build points at the spec: golden texts, formats, colours, exit statuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from kspec.build.cli.diagnostics import annotation, coloured
from kspec.build.package.source_map import map_to_specs
from kspec.build.project import build_project
from kspec.build.report.findings import findings_of
from kspec.diagnostics import Diagnostic
from kspec.errors import CompileError
from tests.golden_cases import cases, read_case
from tests.projects import CONFIGURATION, SQUARES, generated_package, write_project

WARNING = SQUARES.replace('"y = x * x"', '"int unused; y = x * x"')
BAD = SQUARES.replace("x * x", "x * nothing", 1)


@pytest.mark.parametrize("path", cases("diagnostics"), ids=lambda path: path.stem)
@pytest.mark.usefixtures("optimized_code")
def test_golden(path: Path, tmp_path: Path, update_golden: bool) -> None:
    case = read_case(path)
    case.write_files(tmp_path)
    (tmp_path / "pyproject.toml").write_text(CONFIGURATION)
    try:
        report = build_project(tmp_path)
    except CompileError as error:
        found = error.diagnostics
        assert str(error) == "\n".join(map(str, found))
    else:
        found = findings_of(report.plan, report.images, report.compiled)
    case.check("\n".join(map(str, found)), update_golden)


IN_GENERATED_TEXT = '''
[elementwise.clash]
inputs = "T x"
outputs = "T y"
preamble = "#define for_each no_such_name"
operation = "y = x;"
types = { T = ["float32"] }

[reduction.pairs]
inputs = "T x"
outputs = "T y"
preamble = """
template <class T> struct Pair { T a; __device__ Pair(T v, int) : a(v) {} };
"""
map = "Pair<T>(x, 0)"
reduce = "a"
post_map = "y = a.a"
identity = "Pair<T>(0, 0)"
reduce_type = "Pair<T>"
types = { T = ["float32"] }
'''


def test_what_is_wrong_in_text_of_kspec_points_at_the_kernel(tmp_path: Path) -> None:
    toy = write_project(tmp_path, squares=IN_GENERATED_TEXT)
    with pytest.raises(CompileError) as caught:
        build_project(toy)
    found = caught.value.diagnostics
    places = {(one.kernel, one.place, one.length) for one in found}
    assert places == {
        ("clash", "specs/squares.toml:2:14", 5),
        ("pairs", "specs/squares.toml:9:12", 5),
    }
    clash = next(one for one in found if one.kernel == "clash")
    assert clash.message == 'namespace "kspec" has no member "no_such_name"'
    assert clash.details[0].startswith("in squares.cu:")
    messages = [one.message for one in found]
    assert len(set(messages)) == len(messages)
    assert any(detail.startswith("in kspec/reduce") for one in found for detail in one.details)


def test_a_warning_is_said_when_it_is_compiled(run, tmp_path: Path) -> None:
    toy = write_project(tmp_path, squares=WARNING)
    status, _, err = run("build", "--project", toy)
    said = """\
specs/squares.toml:7:18: warning: variable "unused" was declared but never referenced [square]
    operation = "int unused; y = x * x"
                     ^^^^^^
"""
    assert status == 0 and err.endswith(said) and err.count("warning: ") == 1
    assert run("build", "--project", toy)[2] == ""


def test_json(run, tmp_path: Path) -> None:
    toy = write_project(tmp_path, squares=BAD)
    status, out, _ = run("build", "--project", toy, "--format", "json")
    document = json.loads(out)
    assert status == document["exit"] == 2
    assert (document["version"], document["command"]) == (1, "build")
    assert (document["errors"], document["warnings"], document["notes"]) == (1, 0, 0)
    (one,) = document["diagnostics"]
    assert one == {
        "severity": "error",
        "message": 'identifier "nothing" is undefined',
        "path": "specs/squares.toml",
        "line": 7,
        "column": 22,
        "length": 7,
        "source_line": 'operation = "y = x * nothing"',
        "kernel": "square",
        "details": [],
        "hint": "",
        "code": one["code"],  # the number of the message is the compiler's
    }


def test_json_of_success_and_of_other_errors(run, toy: Path) -> None:
    status, out, _ = run("build", "--project", toy, "--format", "json", "--no-compile")
    document = json.loads(out)
    assert status == 0 and document["diagnostics"] == []
    assert document["summary"].startswith("generated/toy_kernels: 3 kernels")
    (toy / "pyproject.toml").write_text('[project]\nname = "toy"\n[tool.kspec]\nspecs = 3\n')
    status, out, err = run("build", "--project", toy, "--format", "json")
    (one,) = json.loads(out)["diagnostics"]
    assert status == 2 and "specs: must be a folder" in one["message"] and err == ""


def test_github(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = write_project(tmp_path / "libs/toy", squares=BAD, bad="")
    (toy / "specs/bad.toml").unlink()
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    status, out, _ = run("build", "--project", toy, "--format", "github")
    assert status == 2
    assert out == (
        "::error file=libs/toy/specs/squares.toml,title=kspec%3A square,line=7,col=22,endColumn=29"
        '::identifier "nothing" is undefined%0Aoperation = "y = x * nothing"'
        "%0A                     ^^^^^^^\n"
    )


def test_a_bad_spec_in_each_format(run, tmp_path: Path) -> None:
    toy = write_project(tmp_path, bad="[elementwise.f]\ninputs = 'T i'\nouput = 'T y'\n")
    for command in ("build", "check"):
        _, out, _ = run(command, "--project", toy, "--format", "json")
        found = json.loads(out)["diagnostics"]
        assert {(one["path"], one["line"]) for one in found} == {
            ("specs/bad.toml", 1),
            ("specs/bad.toml", 2),
            ("specs/bad.toml", 3),
        }
        _, out, _ = run(command, "--project", toy, "--format", "github")
        assert out.count("::error file=") == len(found)


def test_warnings_of_specs_fail_nothing(run, tmp_path: Path) -> None:
    toy = write_project(tmp_path, squares=SQUARES.replace('"T x"', '"int x"', 1))
    warned = (
        "specs/squares.toml:5:11: warning: 'int' is Python's int, int64, not C's; write 'int64'"
    )
    for options in (["--no-compile"], []):
        status, _, err = run("build", "--project", toy, *options)
        assert status == 0 and warned in err
    status, out, err = run("build", "--project", toy)
    assert status == 0 and "warning" not in err + out  # nothing was to do
    status, out, err = run("check", "--project", toy)
    assert status == 0 and warned in err and "up to date" in out
    status, out, _ = run("check", "--project", toy, "--format", "json")
    document = json.loads(out)
    assert (status, document["exit"], document["errors"], document["warnings"]) == (0, 0, 0, 1)
    (one,) = document["diagnostics"]
    assert (one["code"], one["kernel"], one["length"]) == ("ambiguous-type", "square", 3)
    (toy / "generated/toy_kernels/squares.cu").write_text("")
    status, out, _ = run("check", "--project", toy, "--format", "json")
    assert (status, json.loads(out)["warnings"]) == (1, 1)


def test_check(run, toy: Path) -> None:
    run("build", "--project", toy, "--no-compile")
    path = toy / "generated/toy_kernels/squares.cu"
    path.write_text(path.read_text().replace("y = x * x", "y = x + x"))
    (toy / "generated/toy_kernels/shifts.py").unlink()
    status, out, _ = run("check", "--project", toy, "--format", "json")
    found = [(one["path"][22:], one["message"]) for one in json.loads(out)["diagnostics"]]
    assert status == 1 and found == [("shifts.py", "is missing"), ("squares.cu", "is stale")]
    status, out, _ = run("check", "--project", toy, "--format", "github")
    assert status == 1 and "file=" in out and "hint: run `kspec build`" in out


def test_a_format_that_does_not_exist(run, toy: Path) -> None:
    assert run("build", "--project", toy, "--format", "xml")[0] == 2


@pytest.mark.parametrize(
    ("variables", "expected"),
    [({}, False), ({"FORCE_COLOR": "1"}, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False)],
)
def test_colours(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: bool
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    toy = write_project(tmp_path, bad="[elementwise.f]\nouput = 'T y'\n")
    assert ("\x1b[1;31m" in run("build", "--project", toy)[2]) is expected


def test_a_coloured_finding_has_the_same_words() -> None:
    one = Diagnostic("warning", "odd", "a.toml", 3, 5, 2, "x = yy", details=("b",), hint="c")
    plain = coloured(one)
    for escape in ("\x1b[1m", "\x1b[0m", "\x1b[1;35m", "\x1b[2m"):
        plain = plain.replace(escape, "")
    assert plain == str(one)


def test_annotations_are_escaped(tmp_path: Path) -> None:
    one = Diagnostic("note", "100%\n::error::x", "a,b:c.toml", 3, kernel="k")
    line = annotation(one, Path.cwd())
    assert line == "::notice file=a%2Cb%3Ac.toml,title=kspec%3A k,line=3::100%25%0A::error::x"


def test_a_spec_that_changed_meanwhile(tmp_path: Path) -> None:
    """Whatever the file says by now, nothing is lost and nothing fails."""
    one = Diagnostic("error", "odd", "specs/a.toml", 7, 5, 2, "y = xx")
    assert map_to_specs([one], tmp_path, "specs") == (one,)
    (tmp_path / "specs").mkdir()
    for text in ("", "[raw", "[raw.f]\ncode = 'y'\n", "\n" * 6 + "# y = xx"):
        (tmp_path / "specs/a.toml").write_text(text)
        (placed,) = map_to_specs([one], tmp_path, "specs")
        assert (placed.message, placed.line) == ("odd", 7)


@pytest.mark.parametrize(
    ("operation", "place", "shown"),
    [
        ("y = x * nothing", "7:22", 'operation = "y = x * nothing"'),
        ("\\ty = x * nothing", "7:24", 'operation = "\\ty = x * nothing"'),
        ('const char* s = \\"\\"; y = nothing', "7", 'const char* s = ""; y = nothing'),
    ],
)
def test_where_the_runtime_finds_the_spec_file(
    tmp_path: Path, operation: str, place: str, shown: str
) -> None:
    toy = write_project(tmp_path, squares=SQUARES.replace("y = x * x", operation, 1))
    build_project(toy, compiling=False)
    package = generated_package(toy)
    with pytest.raises(CompileError) as caught:
        package.squares.square(np.ones(3, "f4"))
    (one,) = caught.value.diagnostics
    assert (one.place, one.source_line) == (f"specs/squares.toml:{place}", shown)
    assert str(caught.value) == str(one)
    (toy / "specs/squares.toml").unlink()  # as where a wheel is installed
    with pytest.raises(CompileError) as caught:
        package.squares.square(np.ones(3, "f8"))
    assert "operation" not in caught.value.diagnostics[0].source_line
