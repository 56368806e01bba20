"""Python in CUDA text: each error says what to write instead, and the tests compile it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.compiler import compile_source
from kspec.compiler.python_words import explained
from kspec.diagnostics import Diagnostic
from kspec.errors import CompileError
from kspec.model.stages import CudaSource, Target
from kspec.pipeline import spec_of
from kspec.render import render_specs

REDUCTION = {"map": "x", "reduce": "a + b", "post_map": "y = a", "identity": "0"}
TARGETS = {"host": "kspec::Flat", "sm_90": "kspec::Rows"}
LINES = {"host": "kspec::Strided<2>", "sm_90": "kspec::Lines"}


def compiled(target: str, dtype: str = "float64", **fields: Any) -> None:
    kind = "elementwise" if "operation" in fields else "reduction"
    layout = TARGETS[target]
    if kind == "reduction":
        fields, layout = {**REDUCTION, **fields}, LINES[target]
    spec = spec_of(kind, {"name": "op", "inputs": "T x", "outputs": "T y", **fields})
    source = render_specs([spec], "op.cu", (("T", dtype),))
    ctype = {"float64": "double", "int64": "long long"}[dtype]
    expression = f"op<{ctype}, {layout}>"
    compile_source(replace(source, name_expressions=(expression,)), Target(target))


def error_of(target: str, dtype: str = "float64", **fields: Any) -> CompileError:
    with pytest.raises(CompileError) as caught:
        compiled(target, dtype, **fields)
    return caught.value


WORDS = [
    ("np.sqrt(x)", "np.sqrt", "sqrt"),
    ("arctan2(x, x)", "arctan2", "atan2"),
    ("np.maximum(x, x)", "np.maximum", "max"),
    ("np.power(x + 1, 3)", "np.power(x + 1, 3)", "pow(x + 1, 3)"),
    ("np.where(x > 0, x, 0)", "np.where(x > 0, x, 0)", "(x > 0) ? x : 0"),
    ("clip(x, 0, 1)", "clip(x, 0, 1)", "x < 0 ? 0 : x > 1 ? 1 : x"),
    ("np.float32(x)", "np.float32", "float"),
    ("math.pi * x", "math.pi", "M_PI"),
    ("x > 1 or np.inf", "np.inf", "CUDART_INF"),
    ("nan", "nan", "CUDART_NAN"),
    ("True", "True", "true"),
    ("x ** 2", "x ** 2", "x * x"),
    ("2 + sqrt(x)**0.5", "sqrt(x)**0.5", "sqrt(sqrt(x))"),
    ("(x + 1) ** -2", "(x + 1) ** -2", "pow((x + 1), -2)"),
    ("x if x > 1 else 2", "x if x > 1 else 2", "x > 1 ? x : 2"),
    ("max(x if x else 1.0, x)", "x if x else 1.0", "x ? x : 1.0"),
    ("x is not 2", "is not", "!="),
    ("x; print(x)", "print(x)", r'printf("%g\n", double(x))'),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("text", "found", "better"), WORDS, ids=[row[0] for row in WORDS])
def test_what_to_write(text: str, found: str, better: str, target: str) -> None:
    (one,) = error_of(target, operation=f"y = {text}").diagnostics
    assert one.message == f"'{found}' is Python; in CUDA C++ write '{better}'"
    assert (one.path, one.line, one.kernel) == ("<op.operation>", 1, "op")
    line, marks = one.marked()
    assert line[marks.index("^") :][: marks.count("^")] == found
    compiled(target, operation=f"y = {text}".replace(found, better))


MESSAGES = [
    ("float64", "y = None", "'None' is Python; in CUDA C++ every value is a number, so write one"),
    ("float64", "y = np.sum(x)", "'np.sum' is Python and takes arrays, but text of a kernel sees"),
    ("float64", "y = np.foo(x)", "'np.foo' is Python, and CUDA C++ has no function of that name"),
    ("float64", "y = x @ x", "'@' is Python; CUDA C++ has no product of matrices"),
    ("float64", "y = x  # half", "comments of CUDA C++ begin with '//', not '#'"),
    ("float64", "y = x[0]", "x is one element; declare it raw, as in 'raw T x', to index it"),
    ("float64", "y = x.sum()", "x is one element, and numbers have no '.sum'; reduce arrays by a"),
    ("float64", "y = x.astype(float)", "in CUDA C++ write 'float(x)', 'double(x)'"),
    (
        "float64",
        "half = x / 2; y = half",
        "'half' is not declared; begin with its type, as in 'auto half = x / 2'",
    ),
    ("float64", "y = x % 2", "'%' is for integers; for floating-point numbers write 'fmod(x, 2)'"),
    ("float64", "y = x ^ 2", "for a power write 'x * x'"),
    ("float64", "y = max(x, 0)", "the arguments of max have different types; write 'max(x, T(0))'"),
    ("float64", "if x > 0: y = x", "'if x > 0:' is Python; in CUDA C++ write 'if (x > 0) { }'"),
    (
        "int64",
        "y = pow(x, 2)",
        "pow takes floating-point numbers, and T is int64; pass floating-point arrays, or write "
        "'pow(double(x), double(2))'",
    ),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("dtype", "text", "message"), MESSAGES, ids=[row[1] for row in MESSAGES])
def test_messages(dtype: str, text: str, message: str, target: str) -> None:
    assert message in str(error_of(target, dtype, operation=text))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("field", "text", "message"),
    [
        ("map", "x ** 2", "'x ** 2' is Python; in CUDA C++ write 'x * x'"),
        ("reduce", "np.maximum(a, b)", "'np.maximum' is Python; in CUDA C++ write 'max'"),
        ("identity", "-np.inf", "'np.inf' is Python; in CUDA C++ write 'CUDART_INF'"),
        ("post_map", "y = sqrt(a)", "sqrt takes floating-point numbers, and T is int64; "),
        ("post_map", "y = sqqrt(a)", "sqqrt"),
        ("identity", "zero", "zero"),
    ],
)
def test_reductions(field: str, text: str, message: str, target: str) -> None:
    error = error_of(target, "int64", **{field: text})
    assert message in str(error) and str(error).startswith(f"<op.{field}>")
    assert "instantiation" not in str(error) and "permissive" not in str(error)
    assert str(error).count("error: ") == 1


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("text", ["y = pow(x)", "y = round(x, 2)", "y = fmod(x, 2, 3)"])
def test_wrong_numbers_of_arguments_are_not_types(text: str, target: str) -> None:
    assert "write" not in str(error_of(target, operation=text))


def test_a_call_of_a_package_says_its_dtype() -> None:
    from kspec_kernels import norms

    message = (
        r"specs/norms\.toml:\d+:\d+: error: sqrt takes floating-point numbers, and T is int64; "
        r"pass floating-point arrays, or write 'sqrt\(double\(a\)\)' \[l2norm\]"
    )
    with pytest.raises(CompileError, match=message):
        norms.l2norm(np.arange(4))


def test_what_a_preamble_defines_is_not_python() -> None:
    kernel = kspec.ElementwiseKernel(
        "T x",
        "T y",
        "y = np.sqrt(x) + x **&x",
        "own",
        preamble="struct P { __device__ double sqrt(double x) const { return 2 * x; } };\n"
        "__device__ const P np = {};",
    )
    assert kernel(np.array([3.0])).tolist() == [15]


def test_other_errors_stay() -> None:
    found = [
        Diagnostic("error", 'identifier "np" is undefined', "a.cu", 1, 5, 2, "y = other(np)"),
        Diagnostic("error", "x", "kspec/a.cuh", 1, 1, 1, "np.sqrt(x)"),
        Diagnostic("warning", 'identifier "np" is undefined', "a.cu", 1, 5, 2, "y = np.sqrt(x)"),
    ]
    assert explained(found, CudaSource("a.cu", "")) == (*found,)
    assert re.search("no_such", str(error_of("host", operation="y = no_such")))
