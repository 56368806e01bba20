"""Examples and references: arguments out of specs, errors out of results."""

from __future__ import annotations

import math
import re
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kspec.build.load import import_package
from kspec.build.project import build_project
from kspec.build.properties import examples
from kspec.errors import SpecError
from kspec.spec.loader import load_specs
from kspec.spec.models import ElementwiseSpec, RawSpec, ReductionSpec
from tests.projects import ROOT, write_project

SHIPPED = [
    (file.stem, spec)
    for file in load_specs(ROOT / "specs", ROOT)
    for spec in file.specs
    if spec.reference
]


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """The package of this repository's specs, built elsewhere."""
    folder = tmp_path_factory.mktemp("shipped")
    shutil.copy(ROOT / "pyproject.toml", folder)
    shutil.copytree(ROOT / "specs", folder / "specs")
    build_project(folder, compiling=False)
    name = "kspec_kernels"
    others = {one: module for one, module in sys.modules.items() if one.split(".")[0] == name}
    yield import_package(folder / "generated" / name)
    for one in [one for one in sys.modules if one.split(".")[0] == name]:
        del sys.modules[one]
    sys.modules.update(others)


@pytest.mark.parametrize(("stem", "spec"), SHIPPED, ids=lambda one: getattr(one, "name", one))
def test_every_shipped_kernel_agrees_with_its_reference(shipped: object, stem: str, spec) -> None:
    assert examples.has_example(spec)
    call = examples.make_call(spec)
    got = examples.bind_call(call, getattr(getattr(shipped, stem), spec.name))()
    error = examples.worst_error(got, examples.expected(call))
    assert error <= examples.tolerance(call, got)


def elementwise(**fields: object) -> ElementwiseSpec:
    defaults = {"name": "f", "inputs": "T x, float32 c", "outputs": "T y", "operation": "y = x"}
    example = {"shapes": {"x": [4]}, "scalars": {"c": 0.1}}
    return ElementwiseSpec(**{**defaults, "example": example, "reference": "x * c", **fields})


def test_arguments_are_random_and_repeatable() -> None:
    first, second = examples.make_call(elementwise()), examples.make_call(elementwise())
    np.testing.assert_array_equal(first.values["x"], second.values["x"])
    assert len(set(first.values["x"].tolist())) == 4
    assert first.values["x"].dtype == np.float32
    assert first.order == ("x", "c") and first.keywords == {}


def test_numbers_are_what_the_kernel_sees() -> None:
    assert examples.make_call(elementwise()).values["c"] == float(np.float32(0.1))


def test_types_are_the_first_binding_or_the_examples() -> None:
    spec = elementwise(types={"T": ["int16", "float64"]})
    assert examples.make_call(spec).dtype == "int16"
    assert examples.make_call(spec, {"T": "float64"}).dtype == "float64"


def test_structs_are_named_in_short() -> None:
    (spec,) = (spec for stem, spec in SHIPPED if (stem, spec.name) == ("points", "distance"))
    call = examples.make_call(spec)
    assert call.dtype == "struct, float32"


def test_reductions_get_their_axes() -> None:
    spec = ReductionSpec(
        name="f",
        inputs="T x",
        outputs="T y",
        map="x",
        reduce="a + b",
        post_map="y = a",
        reference="x.sum(axis=axis, keepdims=keepdims)",
        example={"shapes": {"x": [4, 5]}, "axis": 0, "keepdims": True},
    )
    call = examples.make_call(spec)
    assert call.keywords == {"axis": 0, "keepdims": True}
    assert examples.expected(call)[0].shape == (1, 5)


def test_raw_kernels_write_their_last_writable_argument() -> None:
    spec = RawSpec(
        name="f",
        code="...",
        name_expressions=["f<double>"],
        params=["T* y", "const T* x", "short k"],
        example={"shapes": {"x": [3], "y": [3]}, "scalars": {"k": 2}, "grid": [1], "block": [3]},
        reference="x * k",
    )
    call = examples.make_call(spec)
    assert call.written == ("y",) and call.order == ("y", "x", "k")
    assert call.values["y"].dtype == np.float64

    def kernel(grid, block, y, x, k):
        assert (grid, block) == ((1,), (3,))
        y[:] = x * k

    got = examples.bind_call(call, kernel)()
    assert examples.worst_error(got, examples.expected(call)) == 0


SCALED = """
[raw.scaled]
code = '''
template <class T, int BY> __global__ void scaled(T* y, const T* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = BY * x[i];
}
'''
name_expressions = ["scaled<float, 2>", "scaled<double, 3>"]
template = ["T", "BY"]
params = ["T* y", "const T* x", "int n"]
defaults = { n = "x.size" }
returns = { y = "n" }
grid = "max(1, ceil_div(n, block.x))"
block = "64"
fixed = ["block"]
reference = "BY * x"
example = { shapes = { x = [100] } }
"""


def scaled(**example: object) -> RawSpec:
    table = tomllib.loads(SCALED)["raw"]["scaled"]
    return RawSpec(**{**table, "name": "scaled", "example": {"shapes": {"x": [3]}, **example}})


def test_raw_kernels_return_arrays() -> None:
    call = examples.make_call(scaled())
    assert (call.order, call.written, dict(call.keywords)) == (("x",), (), {"BY": 2})
    assert call.values["x"].dtype == np.float32 and "y" not in call.values
    (want,) = examples.expected(call)
    np.testing.assert_array_equal(want, call.values["x"].astype(float) * 2)
    got = examples.bind_call(call, lambda x, *, BY: BY * x)()
    assert examples.worst_error(got, (want,)) == 0


def test_a_given_output_is_placed_like_other_arrays() -> None:
    call = examples.make_call(
        scaled(shapes={"x": [3], "y": [3]}, name_expression="scaled<double, 3>")
    )
    assert call.order == ("x",) and set(call.keywords) == {"y", "BY"} and call.keywords["BY"] == 3

    def kernel(x, *, y, BY):
        assert type(x) is type(y) is Placed
        y[:] = BY * x
        return y

    (got,) = examples.bind_call(call, kernel, lambda array: np.copy(array).view(Placed))()
    assert got.dtype == np.float64
    assert examples.worst_error((got,), examples.expected(call)) == 0


class Placed(np.ndarray):
    """An array on another device."""


def test_template_values_of_an_example() -> None:
    def keywords(**changes: object) -> dict[str, object]:
        return dict(examples.make_call(scaled(**changes)).keywords)

    assert keywords(sizes={"BY": 3}) == {"BY": 3}
    assert keywords(name_expression="scaled<double, 3>") == {"BY": 3}
    table = tomllib.loads(SCALED)["raw"]["scaled"]
    table["defaults"]["BY"] = 3
    spec = RawSpec(**table, name="scaled")
    assert examples.make_call(spec).keywords == {}


def test_template_and_returns_in_a_project(tmp_path: Path, run) -> None:
    """Demonstrations, tests, reports and the catalogue know them."""
    toy = write_project(tmp_path, scaled=SCALED)
    for stem in ("squares", "shifts"):
        (toy / f"specs/{stem}.toml").unlink()
    code, out, error = run("build", "--no-compile", "--project", toy)
    assert code == 0, error
    code, out, error = run("test", "scaled.scaled", "--project", toy, "--examples", 20)
    assert code == 0 and "20 ok" in out, out + error
    code, out, error = run("demo", "--project", toy)
    assert code == 0 and "scaled.scaled" in out and "failed" not in out, out + error
    code, out, _ = run("show", "scaled.scaled", "--project", toy)
    assert "raw scaled(T* y, const T* x, int n) -> (y), template <T, BY>, fixed block" in out
    assert "scaled(x: ArrayT, n: Integer | None = None, *, y: ArrayT | None = None, BY: int" in out
    code, _, error = run("docs", "--project", toy, "--output", tmp_path / "page")
    assert code == 0, error
    page = re.sub(r"<[^>]+>", "", (tmp_path / "page/index.html").read_text())
    assert "y_new = scaled.scaled(x, BY=2)" in page and "(n,)" in page and "returned" in page


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (None, "has no example"),
        ({"shapes": {"x": [3]}}, "give 'c' a shape under 'shapes' or a value under 'scalars'"),
    ],
)
def test_examples_that_say_too_little(example: object, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        examples.make_call(elementwise(example=example))


def test_the_shape_of_a_call_is_that_of_its_loop() -> None:
    shapes = {"x": [3, 1], "v": [4], "w": [100]}
    spec = elementwise(inputs="T x, T v, raw T w", reference="x", example={"shapes": shapes})
    assert examples.make_call(spec).shape == (3, 4)
    spec = elementwise(inputs="T x, T v", reference="x", example={"shapes": {"x": [3], "v": [4]}})
    assert examples.make_call(spec).shape == (4,), "the call says that they do not broadcast"


@pytest.mark.parametrize("reference", ["x * unknown", "open('/etc/passwd')", "x.shape[9]"])
def test_references_that_fail(reference: str) -> None:
    with pytest.raises(SpecError, match="reference of kernel 'f'"):
        examples.expected(examples.make_call(elementwise(reference=reference)))


@pytest.mark.parametrize(
    ("got", "want", "error"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0),
        ([0.5], [0.0], 0.5),
        ([101.0], [100.0], 0.01),
        ([np.nan, np.inf], [np.nan, np.inf], 0),
        ([np.nan], [1.0], math.inf),
        ([1.0], [np.nan], math.inf),
        ([np.inf], [-np.inf], math.inf),
        ([1.0], [1.0, 1.0], math.inf),
    ],
)
def test_errors(got: list[float], want: list[float], error: float) -> None:
    assert examples.worst_error([np.array(got)], [np.array(want)]) == error
    assert examples.worst_error([np.array(got)], []) == math.inf


def test_differences_of_unsigned_numbers_do_not_wrap() -> None:
    got, want = np.array([0], np.uint8), np.array([1], np.uint8)
    assert examples.worst_error([got], [want]) == 1


def test_a_package_that_is_not_there(tmp_path: Path) -> None:
    from kspec.errors import LoadError

    with pytest.raises(LoadError, match="kspec build"):
        import_package(tmp_path)


def test_structs_are_compared_field_by_field() -> None:
    dtype = np.dtype([("x", "f4"), ("n", "i4")])
    want = np.array([(1, 2), (np.nan, 4)], dtype)
    assert examples.worst_error([want], [want]) == 0
    got = want.copy()
    got["n"][1] += 4
    assert examples.worst_error([got], [want]) == 1
    other = want.astype([("y", "f4"), ("n", "i4")])
    assert examples.worst_error([other], [want]) == math.inf
