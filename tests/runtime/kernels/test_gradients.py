"""`kernel.backward`: how kernels of packages and of Python find what computes their gradients."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import kspec
from kspec.build.load import import_package
from kspec.build.project import build_project
from kspec.errors import ArgumentTypeError, SpecError
from kspec.model.stages import Specialization
from kspec.runtime.driver.device import Device
from kspec.runtime.modules.advice import advise, missing_lines
from kspec.runtime.package import module_of, modules_of, read_manifest
from tests.projects import write_project

FIRST = """\
[elementwise.cubed]
inputs = "T x, T k"
outputs = "T y"
operation = "y = k * x * x * x"
backward = { x = "3 * grad_y * k * x * x" }
types = { T = ["int32", "float32"] }

[elementwise.elsewhere]
inputs = "T x"
outputs = "T y"
operation = "y = 5 * x"
backward = "five_times"
types = { T = ["float32"] }
"""
SECOND = """\
[elementwise.five_times]
inputs = "T grad_y"
outputs = "T grad_x"
operation = "grad_x = 5 * grad_y"
types = { T = ["float32"] }
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> object:
    project = write_project(tmp_path_factory.mktemp("gradients"), first=FIRST, second=SECOND)
    build_project(project, compiling=False)
    return import_package(project / "generated/toy_kernels")


def test_a_table_is_found_in_its_module(package) -> None:
    kernel = module_of(package.first).kernel("cubed")
    backward = kernel.backward
    assert backward is not None and backward.kernel.name == "cubed_backward"
    assert (backward.takes, backward.gives) == (("x", "k", "grad_y"), ("grad_x",))
    assert backward.differentiable == ("x",)
    x = np.arange(4, dtype=np.float32)
    known = {"x": x, "k": 2.0, "grad_y": np.ones(4, np.float32)}
    np.testing.assert_array_equal(backward.kernel(*backward.arguments(known)), 6 * x * x)
    assert package.first.cubed_backward(x, 2.0, known["grad_y"]).tolist() == (6 * x * x).tolist()


def test_a_named_kernel_is_found_in_another_module(package) -> None:
    backward = module_of(package.first).kernel("elsewhere").backward
    assert backward is not None
    assert backward.kernel.is_same(module_of(package.second).kernel("five_times"))
    assert backward.kernel(np.ones(3, np.float32)).tolist() == [5, 5, 5]


def test_kernels_without_gradients(package) -> None:
    assert module_of(package.second).kernel("five_times").backward is None
    assert kspec.ElementwiseKernel("T x", "T y", "y = x").backward is None


def test_pickled_kernels_keep_them(package) -> None:
    for name in ("cubed", "elsewhere"):
        kernel = module_of(package.first).kernel(name)
        copy = pickle.loads(pickle.dumps(kernel))
        assert copy.is_same(kernel) and copy.backward.gives == ("grad_x",)


def test_modules_of_a_package(package) -> None:
    assert {one.stem for one in modules_of(package)} >= {"first", "second"}
    assert modules_of(package.first)[0].kernel_names == ("cubed", "cubed_backward", "elsewhere")
    with pytest.raises(
        ArgumentTypeError, match="numpy is not a module that `kspec build` generated"
    ):
        modules_of(np)


def test_advice_is_about_the_table_that_somebody_wrote(package) -> None:
    folder = Path(package.__file__).parent
    entry = read_manifest(folder).module("first")
    wanted = Specialization("cubed_backward", (("T", "float64"),), "kspec::Flat")
    kernel = next(one for one in entry.kernels if one.name == "cubed_backward")
    assert list(missing_lines(entry, kernel, wanted)) == [
        'types = { T = ["int32", "float32", "float64"] }'
    ]
    text = advise(folder, entry, wanted, Device("cuda", 0)) if len(kspec.devices()) > 1 else ""
    assert "cubed_backward" not in text.partition("\n")[2]


def test_a_kernel_is_given_itself() -> None:
    front = kspec.ElementwiseKernel("T grad_y", "T grad_x", "grad_x = 2 * grad_y", "twice_gradient")
    kernel = kspec.ElementwiseKernel("T x", "T y", "y = 2 * x", "twice", backward=front)
    assert kernel.backward is not None and kernel.backward.kernel is front
    assert kernel.spec.backward == "twice_gradient"
    with pytest.raises(SpecError, match="pass the kernel 'twice_gradient' itself"):
        kspec.ElementwiseKernel.from_spec(kernel.spec)


@pytest.mark.parametrize(
    ("inputs", "output", "message"),
    [
        ("T grad_y, T dx", "T grad_x", "'slope' has a parameter 'dx', but gradients are made of"),
        ("T grad_y", "T grad_z", "'slope' has an output 'grad_z', but gradients are called grad_x"),
        ("float32 grad_y", "T grad_x", "no input of 'slope' decides .* T of grad_x; let it take x"),
    ],
)
def test_kernels_that_do_not_fit_are_refused_when_a_kernel_is_made(
    inputs: str, output: str, message: str
) -> None:
    name = output.split()[-1]
    slope = kspec.ElementwiseKernel(inputs, output, f"{name} = 2 * grad_y", "slope")
    with pytest.raises(SpecError, match=message):
        kspec.ElementwiseKernel("T x", "float32 y", "y = 2 * x", backward=slope)


def test_wrong_expressions_are_refused_when_a_kernel_is_made() -> None:
    with pytest.raises(SpecError, match="'z' is not an input"):
        kspec.ElementwiseKernel("T x", "T y", "y = x", backward={"z": "grad_y"})
    with pytest.raises(SpecError, match="'_J' does not exist here"):
        kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", 0, backward={"x": "grad_y * _J"})
