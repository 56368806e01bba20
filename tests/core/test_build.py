"""Spec files with core dimensions, through what a build makes of them."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.build.package.catalogue import make_page
from kspec.build.project import build_project, check_project, plan_project
from kspec.build.tools.show import show_kernel
from kspec.model import manifest
from kspec.model.declaration import ElementwiseDeclaration
from kspec.runtime.package import load_manifest, module_of
from tests.core.kernels import FIRST, MODELS, integers
from tests.projects import generated_package, only_ptx, write_specs

ITEMS = """\
doc = "Items."

[elementwise.convolve]
doc       = "Full convolution."
inputs    = ["T a[n]", "T b[m]"]
outputs   = "T c[n + m - 1]"
sizes     = { n = [3, 4], m = 2 }
operation = "for (int j = 0; j < n; ++j) for (int l = 0; l < m; ++l) c(j + l) += a(j) * b(l)"
types     = { T = ["float32", "float64"] }

[elementwise.powers]
inputs    = "float64 x"
outputs   = "float64 y[k]"
sizes     = { k = [2, 3] }
operation = "double power = 1; for (int j = 0; j < k; ++j) { y(j) = power; power *= x; }"

[elementwise.reverse]
inputs    = "int32 x[n]"
outputs   = "int32 y[n]"
operation = "for (int j = 0; j < n; ++j) y(n - 1 - j) = x(j)"
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = only_ptx(write_specs(tmp_path_factory.mktemp("core") / "toy", items=ITEMS))
    build_project(folder)
    return folder


@pytest.fixture(scope="module")
def package(project: Path) -> Any:
    return generated_package(project)


def test_generated_functions(package: Any) -> None:
    a, b, x = integers(5, 4), integers(2, seed=1), integers(6)
    found = package.items.convolve(a, b)
    np.testing.assert_array_equal(found, MODELS["convolve"].expected(a, b))
    out = np.full((5, 5), 7.0)
    assert package.items.convolve(a, b, out) is out
    np.testing.assert_array_equal(out, found + 7)  # the operation adds to it
    for k in (2, 3, 5):
        np.testing.assert_array_equal(package.items.powers(x, k=k), np.vander(x, k, True))
    with pytest.raises(TypeError, match="k"):
        package.items.powers(x)
    y = integers(4, 9, dtype="int32")
    np.testing.assert_array_equal(package.items.reverse(y), y[:, ::-1])


def test_documentation(package: Any) -> None:
    convolve, powers, reverse = (
        " ".join((getattr(package.items, name).__doc__ or "").split())
        for name in ("convolve", "powers", "reverse")
    )
    assert "Precompiled: float32, float64, n = 3 or 4, m = 2, for compute_80" in convolve
    assert "k : int Number that the compiler knows; precompiled for 2, 3." in powers
    assert "Nothing is precompiled" in reverse


def test_builds_follow_the_specs(project: Path) -> None:
    assert not check_project(project)
    text = show_kernel(plan_project(project), "convolve", "signature")
    assert text.splitlines()[-4:] == [
        f"  convolve<{ctype}, kspec::Items<8>, {n}, 2>"
        for ctype in ("float", "double")
        for n in (3, 4)
    ]


def test_a_manifest_survives_its_file(project: Path) -> None:
    plan = plan_project(project)
    written = load_manifest(plan.settings.package_folder)
    assert manifest.load(manifest.dump(written)) == written
    (entry,) = written.modules
    assert entry.kernels == tuple(spec.declaration() for spec in plan.specs)
    convolve, powers, _ = entry.kernels
    assert isinstance(convolve, ElementwiseDeclaration)
    assert isinstance(powers, ElementwiseDeclaration)
    assert convolve.sizes == (("n", (3, 4)), ("m", (2,)))
    assert convolve.call_options == ()
    assert powers.call_options == ("k",)
    assert [param.core for param in convolve.params] == [("n",), ("m",), ("n + m - 1",)]


def test_copies_and_pickles(package: Any) -> None:
    kernel, x = module_of(package.items).kernel("powers"), integers(6)
    for other in (pickle.loads(pickle.dumps(kernel)), copy.copy(kernel), copy.deepcopy(kernel)):
        assert other.is_same(kernel)
        np.testing.assert_array_equal(other(x, k=2), kernel(x, k=2))
    again = pickle.loads(pickle.dumps(FIRST))
    y = integers(6, 3)
    np.testing.assert_array_equal(again(y, k=4), y[:, np.arange(4) % 3])


def test_the_constructor_keeps_its_arguments() -> None:
    operation = FIRST.spec.operation
    again = kspec.ElementwiseKernel("T x[n]", "T y[k]", operation, FIRST.name, **FIRST.kwargs)
    assert again.declaration == FIRST.declaration


def test_the_catalogue(project: Path) -> None:
    (module,) = make_page(plan_project(project)).modules
    convolve, powers, reverse = module.kernels
    assert convolve.coverage == (
        *(f"T = {dtype}, n = {n}, m = 2" for dtype in ("float32", "float64") for n in (3, 4)),
    )
    assert powers.coverage == ("k = 2", "k = 3")
    assert reverse.coverage == ()  # no size is listed
