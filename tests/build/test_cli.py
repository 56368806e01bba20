"""The command line: what it prints where, and how it exits."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console

import kspec
from kspec.build import cli
from kspec.build.cli.app import COMMANDS, GROUPS
from kspec.build.project import build_project
from kspec.build.tools import demo
from tests.projects import ROOT, SQUARES, environment, files_of, run_python, write_project


def test_version(run) -> None:
    assert run("--version") == (0, f"kspec {kspec.__version__}\n", "")


def test_help_fits_80_columns(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    status, out, _ = run("--help")
    assert status == 0
    assert all(word in out for word in ("build", "check", "show", "schema", "demo"))
    assert max(map(len, out.splitlines())) <= 80


def test_help_groups_all_commands(run) -> None:
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(COMMANDS)
    out = run("--help")[1]
    assert [*re.findall(rf"^\W*({'|'.join(GROUPS)})\W*$", out, re.MULTILINE)] == [*GROUPS]
    assert re.search(r"\binit .*\bbuild .*\bdocs ", out, re.DOTALL)


@pytest.mark.parametrize("command", [(), ("build",), ("cache", "verify")])
def test_flags_have_no_type_in_help(run, command: tuple[str, ...]) -> None:
    out = run(*command, "--help")[1]
    assert re.search(r"--help\b", out) and "bool" not in out.lower()


def test_build_and_check(run, toy: Path) -> None:
    status, out, err = run("check", "--project", toy)
    assert (status, out) == (1, "")
    assert err == "generated/toy_kernels: error: is missing\n    hint: run `kspec build`\n"
    status, out, err = run("build", "--project", toy)
    assert (status, out) == (
        0,
        "generated/toy_kernels: 3 kernels in 2 modules, for sm_90 compute_80; 11 files written\n",
    )
    assert "compiling 6/6: " in err
    status, out, err = run("build", "--project", toy)
    assert status == 0 and out.endswith("; up to date\n") and err == ""
    assert run("check", "--project", toy)[0] == 0
    (toy / "generated/toy_kernels/squares.py").unlink()
    status, out, _ = run("check", "--project", toy)
    assert status == 1 and "+++ generated/toy_kernels/squares.py" in out


def test_a_folder_that_can_not_be_made(run, toy: Path) -> None:
    (toy / "generated").write_text("not a folder")
    status, _, err = run("build", "--project", toy)
    remedy = "something else has this name; remove it, or name another path"
    assert (status, err) == (1, f"kspec: {toy / 'generated'}: File exists; {remedy}\n")


def test_options_of_build(run, toy: Path) -> None:
    status, out, _ = run("build", "--project", toy, "--arch", "sm_80", "--arch", "compute_90")
    assert status == 0 and "for sm_80 compute_90;" in out
    assert run("build", "--project", toy, "--arch", "sm_1")[0] == 2
    status, out, _ = run("build", "--project", toy, "--no-compile")
    assert status == 0 and not list((toy / "generated").rglob("*.fatbin.tmp"))


def test_the_project_is_found_from_below(
    run, toy: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(toy / "specs")
    assert run("build", "--no-compile")[0] == 0
    assert (toy / "generated/toy_kernels/squares.py").is_file()
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir("/")
    status, _, err = run("build")
    assert status == 2 and "--project DIR" in err


def test_bad_specs(run, tmp_path: Path) -> None:
    toy = write_project(tmp_path, bad="[elementwise.f]\ninputs = 'T i'\nouput = 'T y'\n")
    status, out, err = run("build", "--project", toy)
    assert (status, out) == (2, "")
    assert "specs/bad.toml:3:1: error: unknown key 'ouput'" in err and "operation" in err
    assert "Traceback" not in err
    assert not (toy / "generated").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('spec = "x"', "unknown key 'spec'; did you mean 'specs'?"),
        ('specs = "../specs"', "specs: '../specs' must be a folder inside the project"),
        ("specs = 3", "specs: must be a folder such as 'specs', not 3"),
        ('specs = "nowhere"', "there is no folder 'nowhere'"),
        ('package = "/tmp/x"', "package: '/tmp/x' must be a folder inside the project"),
        ('package = "generated/no-name"', "'no-name' is not a Python identifier"),
        ('package = "specs"', "would replace the specs"),
        ('archs = "sm_90"', "archs: must be a list"),
        ('archs = ["sm_9", "host"]', "the host device compiles on first use"),
        ('jit = "no"', "jit: must be one of 'auto', 'never', not 'no'"),
        ('torch = "yes"', "torch: must be true or false, not 'yes'"),
        ('specs = "x', "not TOML: the string is not closed in its line; end it with its quote"),
    ],
)
def test_bad_settings(run, toy: Path, line: str, message: str) -> None:
    (toy / "pyproject.toml").write_text(f'[project]\nname = "toy"\n[tool.kspec]\n{line}\n')
    status, _, err = run("build", "--project", toy)
    assert status == 2 and message in err
    assert not (toy / "generated").exists()


def test_bad_settings_have_places(run, toy: Path) -> None:
    text = '[tool.kspec]\njit = 3\narch = ["sm_90"]\narchs = ["sm_90",\n  "sm_9"]\n'
    (toy / "pyproject.toml").write_text(text)
    status, _, err = run("check", "--project", toy)
    assert status == 2
    first, second, third = err.split("pyproject.toml:")[1:]
    assert first == (
        "2:7: error: [tool.kspec] jit: must be one of 'auto', 'never', not 3\n    jit = 3\n          ^\n"
    )
    assert second == (
        "3:1: error: [tool.kspec] unknown key 'arch'; did you mean 'archs'?\n"
        '    arch = ["sm_90"]\n    ^^^^\n'
    )
    assert third.startswith("5:3: error: [tool.kspec] archs: unknown architecture 'sm_9': expected")
    assert third.endswith('\n      "sm_9"]\n      ^^^^^^\n')


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[tool]\nkspec = 3\n", "pyproject.toml:2:9: error: [tool.kspec] must be a table"),
        ('[project]\nname = "3d"\n', "pyproject.toml: error: [tool.kspec] package: '3d_kernels'"),
        ("tool.kspec.package = ''\n", "pyproject.toml:1:22: error: [tool.kspec] package: must be"),
    ],
)
def test_places_of_settings_however_written(run, toy: Path, text: str, place: str) -> None:
    (toy / "pyproject.toml").write_text(text)
    status, _, err = run("check", "--project", toy)
    assert status == 2 and err.startswith(place)


def test_defaults(run, toy: Path) -> None:
    (toy / "pyproject.toml").write_text('[project]\nname = "My.Toy-thing"\n')
    assert run("build", "--project", toy, "--no-compile")[0] == 0
    assert (toy / "generated/my_toy_thing_kernels/__init__.py").is_file()


def test_cuda_that_does_not_compile(run, tmp_path: Path) -> None:
    toy = write_project(tmp_path, squares=SQUARES.replace("x * x", "x * nothing", 1))
    status, _, err = run("build", "--project", toy)
    assert status == 2
    message = """\
specs/squares.toml:7:22: error: identifier "nothing" is undefined [square]
    operation = "y = x * nothing"
                         ^^^^^^^
"""
    assert err.endswith(message)


def test_a_missing_tool(run, toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvrtc", None)
    monkeypatch.delattr("cuda.bindings.nvrtc", raising=False)
    status, _, err = run("build", "--project", toy)
    assert status == 3 and "pip install 'kspec[cu13]'" in err
    assert "Traceback" not in err


def test_show(run, toy: Path) -> None:
    def show(name: str, stage: str) -> str:
        status, out, err = run("show", name, "--stage", stage, "--project", toy)
        assert status == 0, err
        return out

    assert show("square", "signature").startswith("elementwise square(T x) -> (T y)\n")
    assert "  square<int, kspec::Flat>\n" in show("squares.square", "signature")
    assert "shift(grid: Dim3, block: Dim3, x: AnyArray, n: Integer" in (show("shift", "signature"))
    assert "ReductionContext(name='total'" in show("total", "context")
    assert "ElementwiseContext(" in show("square", "context")
    assert "RawContext(" in show("shift", "context")
    source = show("total", "source")
    assert "// ---- total(" in source and "// ---- square(" not in source
    status, _, err = run("show", "square", "--stage", "image", "--project", toy)
    assert status == 1 and "run `kspec build`" in err
    build_project(toy)
    image = show("square", "image")
    assert "squares.square.fatbin: " in image and "compute_80 PTX" in image and "registers" in image


def test_timings(run, toy: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KSPEC_CACHE_DIR", str(tmp_path / "cache"))
    status, out, _ = run("build", "--project", toy, "--timings")
    rows = [line.split() for line in out.splitlines()]
    (square,) = (row for row in rows if row[:2] == ["squares.square", "sm_90"])
    assert status == 0 and square[2] == "10" and float(square[4]) > float(square[5]) > 0
    (total,) = (row for row in rows if row[:1] == ["all"])
    assert total[1] == "30" and float(total[3]) > float(square[4])
    _, out, _ = run("build", "--project", toy, "--timings")
    assert "nothing was compiled: every image is up to date" in out
    for path in (toy / "generated/toy_kernels").glob("shifts.*.fatbin"):
        path.unlink()
    _, out, err = run("build", "--project", toy, "--timings", "--format", "json")
    json.loads(out)
    assert err.count("cached") == 5, "two images, a sum for each of them, and one for both"


def test_show_something_unknown(run, toy: Path) -> None:
    status, _, err = run("show", "sqare", "--project", toy)
    assert status == 2 and err == "kspec: unknown kernel 'sqare'; did you mean square?\n"
    status, _, err = run("show", "nosuch", "--project", toy)
    message = "kspec: unknown kernel 'nosuch'; the specs declare shift, square, total\n"
    assert (status, err) == (2, message)
    status, _, err = run("show", "square", "--stage", "ptx", "--project", toy)
    assert status == 2 and "expected one of signature, context, source, image" in err


def test_schema(run, toy: Path) -> None:
    assert run("schema")[1] == (ROOT / "kspec.schema.json").read_text(encoding="utf-8")
    status, _, err = run("schema", "--check", "--project", toy)
    assert status == 1 and "kspec.schema.json is missing" in err
    assert run("schema", "--write", "--project", toy)[0] == 0
    assert run("schema", "--check", "--project", toy)[0] == 0


def test_demo(run, toy: Path) -> None:
    status, out, err = run("demo", "--project", toy)
    assert status == 0, err
    for kernel in ("shifts.shift", "squares.square", "squares.total"):
        assert f"{kernel} " in out
    assert "max error: the largest difference" in out and "the same CUDA text on the CPU" in out
    assert "max error" in out and "host" in out and "20\u00d730" in out
    assert "running 3/" in err
    assert "compiled on first use: all kernels; `kspec build` makes their images" in err
    assert run("build", "--arch", "sm_90", "--project", toy)[0] == 0
    assert "on first use" not in run("demo", "--project", toy)[2]
    path = toy / "specs/squares.toml"
    path.write_text(path.read_text(encoding="utf-8").replace("a + b", "b + a"))
    assert "compiled on first use: squares.total; `kspec build`" in run("demo", "--project", toy)[2]


def test_a_reference_that_fails_ends_no_demo(run, toy: Path) -> None:
    path = toy / "specs/squares.toml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"x * x"', '"x[7.5]"'), encoding="utf-8")
    status, out, err = run("demo", "--project", toy)
    assert status == 1 and "reference of kernel 'square': IndexError" in err
    assert "squares.total " in out and "squares.square " in out


def test_demo_of_code_that_does_not_compile(run, toy: Path) -> None:
    path = toy / "specs/squares.toml"
    path.write_text(path.read_text(encoding="utf-8").replace('"a + b"', '"a + bb"'))
    status, out, err = run("demo", "--project", toy)
    assert status == 2 and "max error" not in out
    assert err.count("error: ") == 1 and "specs/squares.toml:" in err and "bb" in err


def test_demo_of_a_project_without_examples(run, toy: Path) -> None:
    for path in (toy / "specs").glob("*.toml"):
        lines = path.read_text(encoding="utf-8").splitlines()
        path.write_text("\n".join(one for one in lines if not one.startswith("reference")))
    status, out, err = run("demo", "--project", toy)
    assert status == 1 and "max error" not in out
    assert "nothing to run: no kernel has both an example and a reference" in err


def test_things_are_counted_in_english(run, tmp_path: Path) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "one"\n')
    (tmp_path / "specs/one.toml").write_text('[raw.one]\ncode = "x"\n')
    _, out, _ = run("build", "--no-compile", "--project", tmp_path)
    assert "1 kernel in 1 module; 5 files written" in out


def test_the_demo_table_fits_80_columns() -> None:
    row = demo.DemoRow(
        "m.a_kernel_with_a_rather_long_name", "cuda:0", "complex128", (2048, 1024), 1e-7
    )
    console = Console(width=80, file=io.StringIO())
    console.print(demo.demo_table([replace(row, seconds=0.01, numpy_seconds=0.2)]))
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    for word in ("cuda:0", "complex128", "2048\u00d71024", "1.0e-07", "10.00", "200.00"):
        assert word in text
    assert "relative to it" in text and "on the CPU" not in text, "there is no host device"


def test_demo_of_a_wrong_kernel(run, tmp_path: Path) -> None:
    toy = write_project(tmp_path, squares=SQUARES.replace('"y = x * x"', '"y = x * x + 1"'))
    status, out, err = run("demo", "--project", toy)
    assert status == 1
    assert "kspec: squares.square on host: error 1 is above 1e-05: y[" in err
    assert "squares.total" in out, "the others are shown"


def test_demo_of_a_reference_that_fails(run, tmp_path: Path) -> None:
    toy = write_project(tmp_path, squares=SQUARES.replace('"x * x"', '"x * q"'))
    status, out, err = run("demo", "--project", toy)
    assert status == 1 and "squares.total" in out
    assert (
        """\
kspec: squares.square on host:
specs/squares.toml:9:18: error: reference of kernel 'square': NameError: name 'q' is not defined;\
"""
        in err
    )
    assert '\n    reference = "x * q"\n                     ^\n' in err


def test_demo_of_a_kernel_that_fails(run, tmp_path: Path) -> None:
    toy = write_project(tmp_path, squares=SQUARES.replace('"y = x * x"', '"y = (&x)[1 << 28]"'))
    status, out, err = run("demo", "--project", toy)
    assert status == 1 and "failed" in out and "HostFault" in err


def test_without_a_terminal_there_are_no_escapes(toy: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kspec", "build", "--project", str(toy)],
        env={**environment(ROOT), "COLUMNS": "80", "TERM": "xterm-256color"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0
    assert b"\x1b" not in done.stdout + done.stderr
    assert os.linesep.encode() in done.stdout
    assert "generated/toy_kernels/squares.square.fatbin" in files_of(toy)


@pytest.mark.parametrize("missing", ["typer", "pydantic", "jinja2"])
def test_without_the_authors_libraries(missing: str) -> None:
    code = f"import sys; sys.argv[1:] = ['show', 'k']; sys.modules['{missing}'] = None\n"
    code += "from kspec.build.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(ROOT),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert done.stderr.startswith(f"kspec: the command line needs {missing}: pip install ")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_of_commands_says_what_they_say(name: str) -> None:
    group: Any = typer.main.get_command(cli.app)
    _, command, _ = group.resolve_command(typer.Context(group), [name])
    assert command.help.partition("\n")[0] == COMMANDS[name][1]
    assert set(group.commands) <= set(COMMANDS) == set(group.list_commands(None))


def test_help_imports_no_command() -> None:
    code = """
import sys
from kspec.build import cli
sys.argv = ["kspec", "--help"]
try:
    cli.main()
except SystemExit:
    pass
own = {".".join(name.split(".")[:2]) for name in sys.modules if name.startswith("kspec.")}
print(*sorted(own | sys.modules.keys() & {"numpy", "pydantic", "jinja2"}))
"""
    *shown, imported = run_python(code, ROOT).splitlines()
    assert all(f"│ {name} " in "\n".join(shown) for name in COMMANDS)
    base = ["kspec.config", "kspec.dataclass", "kspec.diagnostics", "kspec.errors", "kspec.files"]
    assert imported.split() == ["kspec.build", *base]


def test_a_build_imports_neither_numpy_nor_the_runtime(toy: Path) -> None:
    code = f"""
import sys
from kspec.build import cli
sys.argv = ["kspec", "build", "--no-compile", "--project", {str(toy)!r}]
try:
    cli.main()
except SystemExit:
    pass
print([name for name in sys.modules if name in ("numpy", "kspec.runtime.arguments.binding")])
"""
    assert run_python(code, ROOT).endswith("\n[]\n")
