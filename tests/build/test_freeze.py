"""`kspec freeze`: fused functions as specs, which build to kernels that give the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kspec.build.load import import_package
from kspec.build.project import build_project
from kspec.build.tools.freeze import parse_arguments, spec_table
from kspec.fusion.call import fuse
from kspec.spec.loader import load_spec_file
from kspec.spec.models import ElementwiseSpec, RawSpec, ReductionSpec, Spec
from tests.projects import CONFIGURATION

Run = Callable[..., tuple[int, str, str]]
MODULE = """\
import numpy as np
from kspec import fuse, jit


@fuse
def squared_diff(x, y):
    return (x - y) * (x - y)


@fuse
def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@fuse
def spread(x):
    return x.max(axis=1) - x.min(axis=1)


@fuse
def silent(x):
    return None


@fuse
def returned(x):
    return x.sum(), x.shape


@jit.rawkernel()
def scale(x, y, a):
    i, j = jit.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        y[i, j] = a * x[i, j]


def plain(x):
    return x
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "toy"
    (folder / "specs").mkdir(parents=True)
    (folder / "pyproject.toml").write_text(CONFIGURATION, encoding="utf-8")
    (folder / "functions.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(__import__("sys").modules, "functions", raising=False)
    return folder


def test_frozen_kernels_give_the_same(project: Path, run: Run) -> None:
    for call in (
        ["functions:squared_diff", "float32[4,8]", "float32[8]"],
        ["functions:softmax", "float32[4,256]"],
        ["functions:spread", "float64[4,8]"],
    ):
        status, _, err = run("freeze", *call)
        assert status == 0, err
    build_project(project, (), compiling=False)
    package = import_package(project / "generated" / "toy_kernels")
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(4, 8)).astype("f4"), rng.normal(size=8).astype("f4")
    np.testing.assert_array_equal(package.squared_diff.squared_diff(x, y), (x - y) * (x - y))
    rows = rng.normal(size=(6, 256)).astype("f4")
    out = np.empty_like(rows)
    package.softmax.softmax(rows, out)
    e = np.exp(rows - rows.max(axis=1, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(axis=1, keepdims=True), rtol=1e-5)
    z = rng.normal(size=(4, 8))
    np.testing.assert_array_equal(package.spread.spread(z, axis=1), np.ptp(z, axis=1))


def test_frozen_python_kernels_give_the_same(project: Path, run: Run) -> None:
    status, _, err = run("freeze", "functions:scale", "float32[4,8]", "float32[4,8]", "float")
    assert status == 0, err
    build_project(project, (), compiling=False)
    package = import_package(project / "generated" / "toy_kernels")
    x, y = np.arange(15, dtype=np.float32).reshape(3, 5), np.zeros((3, 5), np.float32)
    package.scale.scale((1, 1), (8, 8), x, y, 2)
    np.testing.assert_array_equal(y, 2 * x)


def test_files_are_added_to(project: Path, run: Run) -> None:
    path = project / "specs" / "mine.toml"
    path.write_text('# by hand\n[elementwise.one]\noutputs = "float32 y"\noperation = "y = 1"\n')
    status, out, _ = run("freeze", "functions:spread", "float32[3,4]", "--output", path)
    assert status == 0 and f"{path}: 1 kernel (spread)" in " ".join(out.split())
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# by hand\n") and "# Frozen from functions:spread." in text
    status, _, err = run("freeze", "functions:spread", "float32[3,4]", "--output", path)
    assert status == 2 and f"{path} has a kernel 'spread' already" in err
    assert path.read_text(encoding="utf-8") == text
    assert [one.name for one in path.parent.iterdir()] == ["mine.toml"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (["functions"], "'functions' does not name a function; write module:function"),
        ([":f"], "':f' does not name a function; write module:function"),
        (["nowhere:f"], "there is no module 'nowhere'"),
        (["nowhere.below:f"], "there is no module 'nowhere.below'"),
        (["functions:nothing"], "module 'functions' has no 'nothing'"),
        (["functions:plain", "int"], "only fused and jitted functions have kernels"),
        (
            ["functions:spread"],
            "functions:spread called with nothing: TypeError: spread: missing a required",
        ),
        (
            ["functions:spread", "int8[2,2]", "int"],
            "int8[2,2], int: TypeError: spread: too many positional",
        ),
        (["functions:spread", "None"], "functions:spread called with None: AttributeError: "),
        (["functions:spread", "None"], "in spread return x.max(axis=1)"),
        (["functions:returned", "float32[3]"], "ValueError: a fused function returns arrays"),
        (["functions:spread", "float32[3]"], "axis 1 is out of bounds"),
        (["functions:silent", "float32[3]"], "it returns no array, and writes to none"),
        (["functions:spread", "float33[2]"], "an array is written float32[4096,1024]"),
        (["functions:spread", "float32[2"], "an array is written float32[4096,1024]"),
    ],
)
def test_wrong_calls(project: Path, run: Run, call: list[str], message: str) -> None:
    status, _, err = run("freeze", *call)
    assert status == 2 and message in " ".join(err.split())
    assert not list((project / "specs").iterdir())


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"def f(:", "SyntaxError: invalid syntax (broken.py, line 1)"),
        (b"\xff", "SyntaxError: (unicode error) 'utf-8' codec can't decode byte 0xff"),
        (b"import no_such_library", "ModuleNotFoundError: No module named 'no_such_library'"),
        (b"1 / 0", "ZeroDivisionError: division by zero"),
        (b"open('/no/such/file')", "FileNotFoundError: [Errno 2] No such file or directory"),
    ],
)
def test_a_module_that_cannot_be_imported(
    project: Path, run: Run, content: bytes, reason: str
) -> None:
    (project / "broken.py").write_bytes(content)
    status, _, err = run("freeze", "broken:f")
    assert status == 2 and "Traceback" not in err
    assert f"module 'broken' cannot be imported ({reason}" in " ".join(err.split())
    assert "`python -c 'import broken'` shows where" in err


def test_a_spec_file_that_is_not_text_stays(project: Path, run: Run) -> None:
    path = project / "specs" / "mine.toml"
    path.write_bytes(b"\xff\xfe")
    status, _, err = run("freeze", "functions:spread", "float32[3,4]", "--output", path)
    assert status == 2 and "not UTF-8" in err
    assert path.read_bytes() == b"\xff\xfe"


def test_arguments() -> None:
    array, scalar, number, flag, nothing = parse_arguments(
        ["float32[100000,100000]", "int8", "float", "bool", "None"]
    )
    assert array.shape == (100000, 100000) and array.dtype == np.float32
    assert isinstance(scalar, np.int8) and number == 0.0 and flag is False and nothing is None


SPECS: list[Spec] = [
    ElementwiseSpec(
        name="e",
        inputs="T x, raw float32 y",
        outputs="T z",
        operation='z = x;\n// "quoted" \\ and\ttabbed',
        types={"T": ["float32", "float64"]},
        options=("-DN=3",),
        doc="One line.",
    ),
    ReductionSpec(
        name="r", inputs="T x", outputs="T y", map="x", reduce="a + b", post_map="y = a", identity=0
    ),
    RawSpec(
        name="k",
        code='extern "C" __global__ void k(float* x, int n) {\n  x[0] = n;\n}\n',
        params=("float* x", "int n"),
        grid="ceil_div(n, 4)",
        block="4",
        defaults={"n": "x.size"},
    ),
]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_tables_are_read_back(spec: Spec, tmp_path: Path) -> None:
    path = tmp_path / "specs.toml"
    path.write_text(spec_table(spec) + "\n", encoding="utf-8")
    assert load_spec_file(path, tmp_path).specs == (spec,)


def test_specs_of_a_call() -> None:
    @fuse
    def twice(x: object) -> object:
        return x * 2  # type: ignore[operator]

    (spec,) = twice.to_spec(np.zeros(3, "f4"))
    assert isinstance(spec, ElementwiseSpec)
    assert (str(spec.inputs), spec.operation) == (
        "float32 x",
        "const float t0 = x * 2.0f;\nout0 = t0;",
    )
