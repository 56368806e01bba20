"""Fragments that name members of types without ``typename``: in CuPy they are in no template."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kspec
from kspec.model.stages import CudaSource, Specialization, Target, strided
from kspec.pipeline import LazySource
from kspec.render import render_file, specializations
from kspec.spec.loader import load_specs
from tests.compiling import compiled
from tests.devices import ArrayDevice

READS = [
    "using idx = decltype(x)::index_t; idx k = i; y = x[k]",
    "typedef decltype(x)::index_t idx; const idx k = i; y = x[k]",
    "decltype(x)::index_t k = i; y = x[k]",
    "y = x[(decltype(x)::index_t)i]; y += 0 * decltype(x)::ndim",
    "y = x[static_cast<decltype(x)::index_t>(i)]",
    "for (decltype(x)::index_t k = 0; k <= i; ++k) y = x[k]",
    "using index_t = decltype(x)::index_t; index_t k = i; y = x[k]",
]


def reading(operation: str) -> kspec.ElementwiseKernel:
    return kspec.ElementwiseKernel("raw T x", "T y", operation, "index_type")


@pytest.mark.parametrize("operation", READS)
def test_the_index_of_a_raw_array(operation: str, place: ArrayDevice) -> None:
    x = np.arange(6, dtype=np.float32)
    y = reading(operation)(place.array(x), size=6)
    np.testing.assert_array_equal(place.numpy(y), x)


def test_all_parts_of_a_reduction(place: ArrayDevice) -> None:
    total = kspec.ReductionKernel(
        "T x, raw S w", "float32 y",
        "(T::value_type)2 * x.imag() * w[(decltype(w)::index_t)1]",
        "a + b", "T::value_type ten = 10; y = a + ten", "0", "dependent", "float",
    )  # fmt: skip
    x, w = np.arange(6, dtype=np.complex64) * 1j, np.array([1, 10], np.float32)
    y = place.numpy(total(place.array(x), place.array(w)))
    assert y == 2 * 15 * 10 + 10


@pytest.mark.parametrize("operation", READS)
def test_nvrtc_takes_them(operation: str) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    wanted = Specialization("index_type", (("T", "float32"),), strided(1), (1,))
    assert compiled(LazySource(reading(operation).spec)(wanted), Target("sm_90")).code


def test_all_bindings_of_a_spec_file(tmp_path: Path) -> None:
    # There the placeholders are parameters of templates, too.
    pytest.importorskip("cuda.bindings.nvrtc")
    (tmp_path / "parts.toml").write_text("""
    [elementwise.part]
    inputs    = ["T x", "raw T w"]
    outputs   = ["float64 y"]
    operation = "T::value_type v = x.imag(); using I = decltype(w)::index_t; y = v * w[(I)i].real()"
    types     = { T = ["complex64", "complex128"] }

    [reduction.total]
    inputs      = ["T x"]
    outputs     = ["float64 y"]
    map         = "(T::value_type)x.imag()"
    reduce      = "a + b"
    post_map    = "T::value_type v = a; y = v"
    identity    = "0"
    reduce_type = "T::value_type"
    types       = { T = ["complex64"] }
    """)
    (file,) = load_specs(tmp_path, tmp_path)
    names = tuple(one.name_expression for spec in file.specs for one in specializations(spec))
    source = CudaSource("parts.cu", render_file(file), names)
    assert set(compiled(source, Target("sm_90")).symbols) == set(names)
