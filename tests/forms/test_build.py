"""Spec files with forms, through all that a build makes of them."""

from __future__ import annotations

import inspect
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kspec import sharded
from kspec.build.project import build_project, plan_project
from kspec.errors import NotSupportedError, SpecError
from kspec.model.coverage import layouts_of
from kspec.model.forms.kinds import FORMS, LAYOUTS, form_of
from kspec.model.stages import (
    Specialization,
    key_runs,
    scan_columns,
    scan_lines,
    segment_lines,
    strided,
)
from kspec.runtime.kernels.identity import kernel_of
from kspec.runtime.modules.advice import missing_lines
from kspec.runtime.package import load_manifest
from kspec.spec.forms import join_of
from kspec.spec.loader import load_specs
from tests.projects import generated_package, only_ptx, write_specs

SPEC = """\
[reduction.total]
doc = "Sum."
inputs = ["T x"]
outputs = ["T y"]
map = "x"
reduce = "a + b"
post_map = "y = a"
identity = "0"
forms = ["reduce", "scan", "segments", "by_key", "window"]
types = { T = "float64" }

[reduction.both]
doc = "Sum and product with a number."
inputs = ["T x", "T factor"]
outputs = ["T y", "double z"]
map = "x"
reduce = "a + b"
post_map = "y = a; z = a * factor"
forms = ["scan"]
types = { T = ["float32", "float64"] }

[reduction.plain]
doc = "Sum, and no more."
inputs = ["T x"]
outputs = ["T y"]
map = "x"
reduce = "a + b"
post_map = "y = a"
types = { T = "float64" }
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = only_ptx(write_specs(tmp_path_factory.mktemp("forms") / "toy", sums=SPEC))
    build_project(folder)
    return folder


@pytest.fixture(scope="module")
def sums(project: Path) -> Any:
    return generated_package(project).sums


def test_methods_of_a_generated_function(sums: Any) -> None:
    x = np.arange(12.0).reshape(4, 3)
    assert sums.total(x) == 66
    np.testing.assert_array_equal(sums.total.scan(x, axis=0), np.cumsum(x, axis=0))
    np.testing.assert_array_equal(
        sums.total.scan(x, exclusive=True, reverse=True), np.cumsum(x[:, ::-1], 1)[:, ::-1] - x
    )
    np.testing.assert_array_equal(sums.total.segments(x, np.array([0, 1, 4])), [x[0], sum(x[1:])])
    keys = np.array([1, 0, 1, 5])
    np.testing.assert_array_equal(sums.total.by_key(x, keys, 3), [x[1], x[0] + x[2], 0 * x[0]])
    np.testing.assert_array_equal(
        sums.total.by_key(x, keys, 2, deterministic=False), [x[1], x[0] + x[2]]
    )
    np.testing.assert_array_equal(sums.total.window(x, 2, axis=0), x[:-1] + x[1:])
    np.testing.assert_array_equal(
        sums.total.window(x, (4, 3), axis=(0, 1), boundary="valid", step=(1, 2)), [[66]]
    )
    out = np.empty_like(x)
    assert sums.total.scan(x, out=out) is out


def test_several_outputs(sums: Any) -> None:
    x, y, z = np.arange(4, dtype="float32"), np.empty(4, "float32"), np.empty(4)
    found = sums.both.scan(x, 10, out=(y, z))
    assert found == (y, z) or all(map(np.shares_memory, found, (y, z)))
    np.testing.assert_array_equal(y, [0, 1, 3, 6])
    np.testing.assert_array_equal(z, [0, 10, 30, 60])
    with pytest.raises(
        AttributeError, match=r"^both has no form 'segments'; in specs/sums\.toml, line"
    ):
        sums.both.segments(x, [0, 4])


def test_bounds_by_keyword(sums: Any) -> None:
    x = np.arange(3.0)
    assert sums.total.segments(x, indptr=np.array([0, 2, 3])).tolist() == [1, 2]
    assert sums.total.segments(indptr=np.array([0, 3]), x=x).tolist() == [3]


def test_forms_without_reduce(sums: Any) -> None:
    """Which is for operators that do not commute: a reduction would be wrong."""
    x = np.arange(4.0)
    refused = pytest.raises(
        NotSupportedError,
        match=r"^both has no reduce: its spec lists the forms scan; call both\.scan, or add 'reduce' "
        r"to forms if the reduce expression is commutative$",
    )
    with refused:
        sums.both(x, 2)
    sums.both.scan(x, 2)
    with refused:
        sums.both(x, 2, axis=0)
    with refused:
        kernel_of(sums.both).bind(x, 2)
    with pytest.raises(NotSupportedError, match="by shard: its spec lists forms without 'reduce'"):
        sharded.apply(sums.both, [x, x], 2)
    assert "NotSupportedError\n        Always: the spec lists no 'reduce'" in sums.both.__doc__
    assert "NotSupportedError" not in sums.total.__doc__


def test_signatures(sums: Any) -> None:
    assert str(inspect.signature(sums.total.segments)) == (
        "(x: 'ArrayT', indptr: 'AnyArray', *, out: 'ArrayT | None' = None, "
        "stream: 'Stream | None' = None) -> 'ArrayT'"
    )
    assert str(inspect.signature(sums.total.by_key)) == (
        "(x: 'ArrayT', keys: 'AnyArray', n: 'int', *, out: 'ArrayT | None' = None, "
        "deterministic: 'bool' = True, stream: 'Stream | None' = None) -> 'ArrayT'"
    )
    assert "Number of outputs." in sums.total.by_key.__doc__
    assert str(inspect.signature(sums.total.scan)) == (
        "(x: 'ArrayT', *, out: 'ArrayT | None' = None, axis: 'int' = -1, "
        "exclusive: 'bool' = False, reverse: 'bool' = False, stream: 'Stream | None' = None)"
        " -> 'ArrayT'"
    )
    assert sums.total.__doc__.startswith("Sum.")
    assert sums.total.window.__doc__.startswith("Reduce windows that slide along axes.")


def test_the_object_stands_for_its_kernel(sums: Any) -> None:
    kernel = kernel_of(sums.total)
    assert kernel.name == sums.total.__name__ == "total"
    assert kernel_of(pickle.loads(pickle.dumps(sums.total))).name == "total"
    assert inspect.isfunction(sums.plain)
    assert kernel_of(sums.plain).declaration.forms == ()
    blocks = [np.arange(6.0), np.arange(3.0)]
    np.testing.assert_array_equal(sharded.apply(sums.total, blocks), 18)


def test_what_is_precompiled(project: Path) -> None:
    (file,) = load_specs(project / "specs", project)
    total, both, plain = (spec.declaration() for spec in file.specs)
    binding = (("T", "float64"),)
    assert {form_of(tag) for tag, _ in layouts_of(total, binding)} == set(FORMS)
    tags = [tag for tag, _ in layouts_of(both, binding)]  # the size of accumulators needs one
    assert [tag for tag in tags if form_of(tag) == "reduce"] == [strided(1)]
    assert {form_of(tag) for tag in tags} == {"reduce", "scan"}
    assert {form_of(tag) for tag, _ in layouts_of(plain, binding)} == {"reduce"}
    folder = plan_project(project).settings.package_folder
    entry = load_manifest(folder).module("sums")
    assert [kernel.forms for kernel in entry.kernels] == [FORMS[1:], ("scan",), ()]
    assert [kernel.forms_only for kernel in entry.kernels] == [False, True, False]
    assert f"total<double, {scan_lines(1)}>" in entry.precompiled
    assert f"both<float, {scan_columns(1)}>" in entry.precompiled
    assert not any("plain" in one and "Scan" in one for one in entry.precompiled)


def test_operations_that_the_runtime_knows(project: Path) -> None:
    entry = load_manifest(plan_project(project).settings.package_folder).module("sums")
    assert [kernel.joins for kernel in entry.kernels] == ["SUM", "SUM", "SUM"]


@pytest.mark.parametrize(
    ("reduce", "preamble", "wanted"),
    [
        (" b+a", "", "SUM"),
        ("min(a, b)", "template <class T> T other(T);", "LEAST"),
        ("min(a, b)", "__device__ float min(float a, float b);", ""),
        ("a + b + 0", "", ""),
        ("a - b", "", ""),
        ("a /* and */ & b", "", "ALL_BITS"),
    ],
)
def test_known_operations(reduce: str, preamble: str, wanted: str) -> None:
    assert join_of(reduce, preamble) == wanted


def test_advice_names_the_form(project: Path) -> None:
    folder = plan_project(project).settings.package_folder
    entry = load_manifest(folder).module("sums")
    _, both, plain = entry.kernels
    binding = (("T", "float64"),)
    wanted = Specialization("plain", binding, scan_lines(1))
    assert list(missing_lines(entry, plain, wanted)) == ['forms = ["reduce", "scan"]']
    wanted = Specialization("both", binding, segment_lines(1))
    assert list(missing_lines(entry, both, wanted)) == ['forms = ["scan", "segments"]']
    wanted = Specialization("both", binding, key_runs(1))
    assert list(missing_lines(entry, both, wanted)) == ['forms = ["scan", "by_key"]']
    wanted = Specialization("both", binding, scan_lines(9))
    assert list(missing_lines(entry, both, wanted)) == ['layouts = ["ScanLines<64>"]']


@pytest.mark.parametrize("form", FORMS[1:])
def test_every_layout_has_its_form(form: str) -> None:
    for layout in LAYOUTS[form]:
        assert form_of(layout(1)) == form_of(layout(9)) == form


def faults(tmp_path: Path, old: str, new: str) -> str:
    (tmp_path / "specs").mkdir()
    assert old in SPEC
    (tmp_path / "specs/sums.toml").write_text(SPEC.replace(old, new, 1))
    with pytest.raises(SpecError) as caught:
        load_specs(tmp_path / "specs", tmp_path)
    return str(caught.value)


LISTED = 'forms = ["reduce", "scan", "segments", "by_key", "window"]'


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            LISTED,
            'forms = ["reduce", "scam"]',
            "unknown form 'scam'; expected one of reduce, scan, segments, by_key, window",
        ),
        (LISTED, 'forms = ["scan", "scan"]', "'scan' is listed twice"),
        (
            f'identity = "0"\n{LISTED}',
            'forms = ["segments"]',
            "'segments' needs an identity, which is the value of an empty segment",
        ),
        (
            f'identity = "0"\n{LISTED}',
            'forms = ["by_key"]',
            "'by_key' needs an identity, which is the value of an output without elements",
        ),
        (
            'inputs = ["T x"]',
            'inputs = ["T x", "T keys"]',
            "'keys' is an argument of 'by_key'; choose another parameter name",
        ),
        (
            'map = "x"\nreduce = "a + b"\npost_map = "y = a"\nidentity',
            'map = "_raw_x[0]"\nreduce = "a + b"\npost_map = "y = a"\nidentity',
            "'scan' is not possible: its expressions read _raw_x, which only the reduction itself "
            "has",
        ),
        (
            'inputs = ["T x"]',
            'inputs = ["_non_const T x"]',
            "'scan' is not possible: it writes to x, which is _non_const",
        ),
        (
            'inputs = ["T x"]',
            'inputs = ["T x", "T indptr"]',
            "'indptr' is an argument of 'segments'; choose another parameter name",
        ),
    ],
)
def test_faults(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert message in faults(tmp_path, old, new)
