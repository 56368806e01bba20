"""Errors of users show their own lines, and one of kspec's."""

from __future__ import annotations

import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kspec
from kspec import jit
from kspec.errors import FusionError
from tests.projects import environment

X = np.ones((3, 4))
PACKAGE = str(Path(kspec.__file__).parent)
double = kspec.ElementwiseKernel("T x", "T y", "y = 2 * x", "double_it")
total = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "total")
fill = kspec.RawKernel('extern "C" __global__ void fill(double* x, int n) { x[n] = 1; }', "fill")


@kspec.fuse(device="host")
def fused(x: Any) -> Any:
    return helper(x)


def helper(x: Any) -> Any:
    return float(x)


@jit.rawkernel()
def jitted(x: Any) -> None:
    x[0] = no_such  # noqa: F821


def frames(error: BaseException) -> list[str]:
    """Return the functions of a traceback, kspec's own as ``kspec``."""
    found = traceback.extract_tb(error.__traceback__)
    return ["kspec" if one.filename.startswith(PACKAGE) else one.name for one in found]


ERRORS: dict[str, Callable[[], object]] = {
    "constructor": lambda: kspec.ElementwiseKernel("T x", "T", "y = x", "k"),
    "reduction": lambda: kspec.ReductionKernel("T x", "T y", "x", "a + b", "a", "0", "k"),
    "compile": lambda: kspec.ElementwiseKernel("T x", "T y", "y = no", "k")(X),
    "shapes": lambda: double(X, np.ones(2)),
    "bind": lambda: double.bind(X, np.ones(2)),
    "axis": lambda: total(X, axis=2),
    "scan": lambda: total.scan(X, axis=2),
    "segments": lambda: total.segments(X, indptr=X),
    "by_key": lambda: total.by_key(X, X, 3),
    "window": lambda: total.window(X, 9, axis=0),
    "raw": lambda: fill((1,), (1,), (X,)),
    "fault": lambda: fill((1,), (1,), (X, 12)),
    "explain": lambda: fused.explain(X),
    "to_spec": lambda: fused.to_spec(X),
    "jit": lambda: jitted((1,), (1,), (X,)),
    "jit[]": lambda: jitted[1, 1](X),
}


@pytest.mark.parametrize("name", ERRORS)
def test_one_frame_of_kspec(name: str) -> None:
    double(X), total(X), fill((1,), (1,), (X, 0))  # calls that are repeated have another way
    for _ in range(2):
        with pytest.raises((kspec.KspecError, np.exceptions.AxisError)) as caught:
            ERRORS[name]()
        assert frames(caught.value)[:3] == ["test_one_frame_of_kspec", "<lambda>", "kspec"]
        theirs = ["fused", "helper", "kspec"] if name in ("explain", "to_spec") else []
        assert frames(caught.value)[3:] == theirs


NO = 'extern "C" __global__ void k(int* x) { x[0] = no; }'


@pytest.mark.parametrize(
    "compiled",
    [
        lambda: kspec.RawKernel(NO, "k").compile(),
        lambda: kspec.RawKernel(NO, "k").attributes,
        lambda: kspec.RawModule(code=NO).get_function("k"),
        lambda: kspec.RawModule(code=NO).get_global("x"),
    ],
)
def test_errors_of_compilers_come_from_the_loader(compiled: Callable[[], object]) -> None:
    with pytest.raises(kspec.CompileError) as caught:
        compiled()
    assert 2 <= frames(caught.value).count("kspec") <= 5


def test_functions_of_users_stay() -> None:
    with pytest.raises(FusionError) as caught:
        fused(X)
    assert frames(caught.value)[1:] == ["kspec", "fused", "helper", "kspec"]


def test_development_mode_shows_everything() -> None:
    code = "import kspec; kspec.ElementwiseKernel('T x', 'T', 'y = x', 'k')"
    for mode, counts in ((), {1}), (("-X", "dev"), {4, 5}):
        ran = subprocess.run(
            [sys.executable, *mode, "-c", code], env=environment(), capture_output=True, text=True
        )
        assert "SignatureSyntaxError: kernel 'k'" in ran.stderr
        assert ran.stderr.count(f'File "{PACKAGE}') in counts


def test_errors_of_kspec_itself_keep_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kspec.runtime.kernels.elementwise.infer", None)
    with pytest.raises(TypeError) as caught:
        ERRORS["compile"]()
    assert not isinstance(caught.value, kspec.KspecError)
    assert frames(caught.value).count("kspec") == 3
