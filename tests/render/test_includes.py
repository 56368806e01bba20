"""Which headers a kernel's text gets: those it needs, and they are what makes it compile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kspec.compiler.headers import carry_headers, missing_includes
from kspec.model.stages import CudaSource, Specialization, Target, strided
from kspec.pipeline import LazySource
from kspec.render import compiler_options, render_file, specializations
from kspec.render.includes import includes_for
from kspec.spec.building import build_spec
from kspec.spec.loader import load_specs
from kspec.spec.models import ElementwiseSpec, ReductionSpec
from tests.compiling import compiled

COMPLEX, HALF, THRUST = "kspec/complex.cuh", "kspec/half.cuh", "cupy/complex.cuh"
LOOP, DIVIDE, ATOMICS = "kspec/loop.cuh", "kspec/floor_divide.cuh", "kspec/atomics.cuh"
FLOAT8, STRUCT = "kspec/float8.cuh", "kspec/struct.cuh"
STANDARD = "cupy/cuda_workaround.h"
UFUNCS, CARRAY = "kspec/ufuncs.cuh", "cupy/carray.cuh"


def elementwise(**fields: Any) -> ElementwiseSpec:
    fields = {"inputs": "T x", "outputs": "T y", "operation": "y = x", **fields}
    return build_spec(ElementwiseSpec, name="k", **fields)


def reduction(**fields: Any) -> ReductionSpec:
    fields = {"inputs": "T x", "outputs": "T y", **fields}
    fields = {"map": "x", "reduce": "a + b", "post_map": "y = a", **fields}
    return build_spec(ReductionSpec, name="r", **fields)


def library(spec: ElementwiseSpec | ReductionSpec, binding: Any = ()) -> set[str]:
    return set(includes_for([spec], binding)) - {"kspec/elements.cuh", "kspec/reduce.cuh"}


def test_a_kernel_of_floats_needs_only_its_loop() -> None:
    assert includes_for([elementwise()], (("T", "float32"),)) == ("kspec/elements.cuh",)
    assert includes_for([reduction()], (("T", "int8"),)) == ("kspec/reduce.cuh",)


@pytest.mark.parametrize(
    ("dtype", "header"),
    [("float16", HALF), ("bfloat16", HALF), ("complex64", COMPLEX), ("complex128", COMPLEX)],
)
def test_types_of_the_binding_and_of_the_signature(dtype: str, header: str) -> None:
    assert library(elementwise(), (("T", dtype),)) == {header}
    assert library(reduction(inputs=f"{dtype} x"), (("T", "float32"),)) == {header}
    spec = elementwise(types={"T": ["float32", dtype]})
    assert includes_for([spec]) == (header, "kspec/elements.cuh")


@pytest.mark.parametrize(
    ("fields", "headers"),
    [
        ({"operation": "y = complex<float>(x).real()"}, {COMPLEX}),
        ({"preamble": "__device__ float f(float16 h) { return h; }"}, {HALF}),
        ({"options": ("-DPAIR=complex<double>",)}, {COMPLEX}),
        ({"operation": "y = abs(thrust::complex<double>(x, x))"}, {THRUST, COMPLEX}),
        ({"operation": "y = _floor_divide(x, x)"}, {DIVIDE}),
        ({"operation": "atomicMax(&y, x)"}, {ATOMICS}),
        ({"operation": "y = kspec::ufunc::sign(x)"}, {UFUNCS}),
        ({"loop_prep": "CUPY_FOR(k, 3) {}"}, {LOOP}),
        ({"preamble": "__device__ void f(CArray<T, 1>& a) {}"}, {CARRAY}),
        ({"preamble": "using cupy::type_traits::is_same;"}, {CARRAY}),
        ({"preamble": "#include <cupy/math_constants.h>\n#include <type_traits>"}, {CARRAY}),
        ({"operation": "y = x  /* no complex, no float16 */"}, set()),
        ({"operation": "y = x.complex"}, set()),
        ({"operation": "y = std::numeric_limits<T>::max()"}, {STANDARD}),
        ({"preamble": "template <> struct std::is_signed<float16> {};"}, {STANDARD, HALF}),
        ({"operation": "y = std::abs(x)", "preamble": "#include <cmath>"}, set()),
        ({"operation": "T std = x; y = cuda::std::abs(std)"}, set()),
    ],
)
def test_names_in_the_text(fields: dict[str, Any], headers: set[str]) -> None:
    assert library(elementwise(**fields), (("T", "float32"),)) == headers


@pytest.mark.parametrize("field", ["map", "reduce", "post_map", "identity", "reduce_type"])
def test_names_in_each_part_of_a_reduction(field: str) -> None:
    text = "y = complex<float>()" if field == "post_map" else "complex<float>"
    assert library(reduction(**{field: text}), (("T", "float32"),)) == {COMPLEX}


@pytest.mark.parametrize("preamble", ['#include "mine.h"', "#define PASTE(p, q) p##q"])
def test_a_text_that_can_not_be_searched_gets_everything(preamble: str) -> None:
    everything = {COMPLEX, FLOAT8, HALF, LOOP, DIVIDE, ATOMICS, STRUCT, UFUNCS, CARRAY}
    assert library(elementwise(preamble=preamble), (("T", "float32"),)) == everything


def test_a_lazy_reduction_is_one_small_compilation() -> None:
    spec = reduction(map="x * x", post_map="y = sqrt(a)", identity=0)
    wanted = Specialization("r", (("T", "float32"),), strided(1))
    source = carry_headers(LazySource(spec)(wanted))
    assert missing_includes(source) == ()  # nothing of the toolkit, no CCCL
    assert all(header.name.startswith("kspec/") for header in source.headers)
    image = compiled(source, Target("sm_90"))
    assert set(image.symbols) == {wanted.name_expression}
    assert len(image.figures) == 1


USES_ALL = """
y = _floor_divide(x, x) + _floor_divide(7, 2) + _floor_divide(7ull, 2ull) + M_PI;
atomicMax(&y, x); atomicMin(&y, 3); atomicAdd(&y, x); atomicAdd(&w[0], 3); atomicMax(&w[0], 3);
__shared__ float low; low = CUDART_INF_F; atomicMin(&low, -1.5f);
complex<float> z(x, A); y += abs(z * thrust::complex<float>(N, T2(1)));
float16 h(y); y = h + bfloat16(h) + kspec::ufunc::maximum(h, kspec::ufunc::spacing(h));
y += abs(kspec::ufunc::sign(z)) + kspec::ufunc::gcd(12ll, w[0]) + kspec::ufunc::remainder(x, 3.0);
"""


@pytest.mark.parametrize("arch", ["compute_80", "compute_90", "compute_120"])
def test_everything_compiles_for_cuda_with_hostile_macros(arch: str) -> None:
    spec = elementwise(
        inputs="float64 x",
        outputs="float64 y, raw int64 w",
        operation=USES_ALL,
        loop_prep="CUPY_FOR(k, 3) w[k] = k;",
        options=("-DA=3", "-DN=4", "-DT2=float", *(f"-D{letter}=x" for letter in "BCDEIJKR")),
    )
    wanted = Specialization("k", (), strided(1), (2,))
    image = compiled(LazySource(spec)(wanted), Target(arch))
    assert set(image.symbols) == {wanted.name_expression}
    assert image.log == ""


def test_kernels_of_a_file_have_macros_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text(
        """
        [elementwise.three]
        outputs = "int32 y"
        operation = "y = N"
        options = ["-DN=3"]
        [elementwise.four]
        outputs = "int32 y"
        operation = "y = N"
        options = ["-DN=4"]
        [elementwise.none]
        outputs = "int32 y"
        operation = '''
        #ifdef N
        #error N is not of this kernel
        #endif
        y = 0
        '''
        """
    )
    (spec_file,) = load_specs(tmp_path, tmp_path)
    text = render_file(spec_file)
    assert "#define N 3\n" in text and "#define N 4\n" in text
    names = tuple(one.name_expression for spec in spec_file.specs for one in specializations(spec))
    image = compiled(CudaSource("m.cu", text, names), Target("compute_90"))
    assert set(image.symbols) == set(names)
    assert compiler_options(spec_file.specs) == ()
