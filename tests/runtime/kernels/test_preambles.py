"""Preambles as CuPy's users write them: in the global namespace, with the names of CuPy's headers.

Each kernel runs on every device; on the host device it is compiled for CUDA as well, by NVRTC, which
needs no GPU.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kspec
from kspec import ElementwiseKernel, ReductionKernel
from kspec.compiler.cuda.nvrtc import nvrtc_version
from kspec.errors import ToolNotFoundError
from kspec.model.stages import FLAT, HOST, CudaSource, Specialization, Target, strided
from kspec.pipeline import LazySource
from kspec.render import render_file
from kspec.spec.loader import load_specs
from tests.compiling import compiled
from tests.devices import ArrayDevice

SPECIALIZED = r"""
#include <cupy/cuda_workaround.h>  // type traits
#include <cupy/float16.cuh>
#include <cupy/math_constants.h>

template <> struct std::is_floating_point<float16> : std::true_type {};
template <> struct std::is_signed<float16> : std::true_type {};

template <class To, class From>
__device__ typename std::enable_if<
    std::is_floating_point<From>::value && !std::is_signed<To>::value, To>::type
wrapped(From value) { return value >= 0 ? (To)value : -(To)(-value); }
template <class To, class From>
__device__ typename std::enable_if<
    !std::is_floating_point<From>::value || std::is_signed<To>::value, To>::type
wrapped(From value) { return (To)value; }
"""

ARRAYS = r"""
template <class A, int N, bool C, bool I> __device__ A last(const CArray<A, N, C, I>& array) {
  return array[array.size() - 1];
}
__device__ double head(const CArray<double, 1, true>& array) { return array[0]; }
__device__ double copied(CArray<double, 2> array) { return array[{1, 2}]; }
template <class Any> __device__ double corner(Any& array) {
  int at[] = {1, 0};
  return array[at] + 100 * Any::ndim + 1000 * array.shape()[1];
}
__device__ void store(CArray<double, 1, true, true>& array, ptrdiff_t i, double value) {
  array[i] = value;
}
__device__ double made() {
  double values[] = {1, 2, 3, 4, 5, 6};
  const ptrdiff_t steps[] = {8, 16};
  CArray<double, 1, true, true> flat(values, {6});
  CArray<double, 2, true> rows(values, {3, 2});
  CArray<double, 2> columns(values, rows.shape(), steps);
  const CArray<double, 0, true> single(&values[4]);
  CIndexer<2> index({3, 2});
  CIndexer<0> none;
  index.set(3);
  none.set(0);
  return flat[5] + 10 * rows[index.get()] + 100 * columns[{1, 1}] + 1000 * single[0] +
         10000 * index.size() + 100000 * none.size();
}
"""


def compile_for_cuda(
    kernel: Any,
    binding: tuple[tuple[str, str], ...] = (),
    ndims: tuple[int, ...] = (),
    arch: str = "sm_90",
) -> str:
    """Compile a kernel for a GPU, or to PTX; without NVRTC, there is nothing to compile with."""
    try:
        nvrtc_version()
    except ToolNotFoundError:
        pytest.skip("no NVRTC")
    layout = strided(1) if isinstance(kernel, ReductionKernel) else FLAT
    wanted = Specialization(kernel.name, binding, layout, ndims)
    image = compiled(LazySource(kernel.spec)(wanted), Target(arch))
    assert set(image.symbols) == {wanted.name_expression}
    return image.code.decode("latin-1")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_templates_of_the_library_can_be_specialized(dtype: str, place: ArrayDevice) -> None:
    kernel = ElementwiseKernel(
        "raw X x", "Y y", "y = wrapped<Y>(x[i])", "wrapping", preamble=SPECIALIZED
    )
    x, y = np.array([-1.5, 0, 2.75], dtype), place.zeros(3, "uint8")
    kernel(place.array(x), y)
    np.testing.assert_array_equal(place.numpy(y), np.array([255, 0, 2], "uint8"))
    compile_for_cuda(kernel, (("X", dtype), ("Y", "uint8")), (1,))


def test_the_library_without_an_include(place: ArrayDevice) -> None:
    # CuPy includes limits, tuple, type_traits and utility in front of every kernel.
    preamble = "template <> struct std::is_floating_point<float16> : std::true_type {};"
    operation = """
    std::pair<T, T> ends(std::numeric_limits<T>::lowest(), std::numeric_limits<T>::max());
    std::swap(ends.first, ends.second);
    y = std::is_floating_point<float16>::value + 2 * (ends.second < x) + 4 * (x < ends.first);
    """
    kernel = ElementwiseKernel("T x", "T y", operation, "no_include", preamble=preamble)
    np.testing.assert_array_equal(place.numpy(kernel(place.array([1, 2]))), [7, 7])
    total = ReductionKernel(
        "T x", "T y", "x", "a < b ? b : a", "y = a", "std::numeric_limits<T>::lowest()", "largest"
    )
    assert place.numpy(total(place.array([-3.0, -2.0]))) == -2
    compile_for_cuda(kernel, (("T", "int64"),))
    compile_for_cuda(total, (("T", "float64"),))


def test_namespaces_of_headers_can_be_reopened(place: ArrayDevice) -> None:
    preamble = """
    #include <limits>
    namespace std {
    template <class Type> struct spread { static constexpr int value = sizeof(Type); };
    }
    template <> struct std::spread<T> { static constexpr int value = 7; };
    """
    operation = "y = std::spread<T>::value + (x < std::numeric_limits<T>::max() ? x : 0)"
    kernel = ElementwiseKernel("T x", "T y", operation, "reopened", preamble=preamble)
    np.testing.assert_array_equal(place.numpy(kernel(place.array([1, 2]))), [8, 9])
    compile_for_cuda(kernel, (("T", "int64"),))


def test_what_is_defined_first_is_seen_by_what_is_included_next(
    place: ArrayDevice, tmp_path: Path
) -> None:
    (tmp_path / "mine.h").write_text(
        "__device__ T scaled(T value) { return FACTOR * Base(value); }\n"
    )
    kernel = ElementwiseKernel(
        "T x",
        "T y",
        "y = scaled(x) + LATER",
        "in_order",
        preamble='typedef T Base;\n#define FACTOR 3\n#include "mine.h"\n#define LATER 1\n',
        options=(f"-I{tmp_path}",),
    )
    np.testing.assert_array_equal(place.numpy(kernel(place.array([1.0, 2.0]))), [4.0, 7.0])
    compile_for_cuda(kernel, (("T", "float64"),))


def test_reductions_have_their_preamble_there_too(place: ArrayDevice) -> None:
    kernel = ReductionKernel(
        "T x",
        "float64 y",
        "Wide<T>::type(x)",
        "a + b",
        "y = a",
        "0",
        "wide_sum",
        reduce_type="Wide<T>::type",
        preamble="""
        template <class Type> struct Wide;
        template <> struct Wide<T> { typedef double type; };
        #include <type_traits>
        template <> struct std::is_arithmetic<Wide<T>> : std::true_type {};
        """,
    )
    x = np.array([1, 2, 3], "int16")
    np.testing.assert_array_equal(place.numpy(kernel(place.array(x))), 6.0)
    compile_for_cuda(kernel, (("T", "int16"),))


def test_types_made_of_placeholders_need_no_typename(place: ArrayDevice) -> None:
    preamble = "template <class Type> struct Wide { typedef double type; };"
    kernel = ElementwiseKernel(
        "T x, raw T w",
        "Y y",
        "Wide<T>::type wide = x; Wide<Y>::type more = w[i]; y = wide / 2 + more",
        "widened",
        preamble=preamble,
    )
    y = place.zeros(2)
    kernel(place.array([1, 2]), place.array([10, 20]), y)
    np.testing.assert_array_equal(place.numpy(y), [10.5, 21.0])
    compile_for_cuda(kernel, (("T", "int64"), ("Y", "float64")), (1,))


def test_names_of_the_users_own_do_not_clash(place: ArrayDevice) -> None:
    preamble = """
    __device__ double min(double a, double b, double c) { return min(min(a, b), c); }
    __device__ int size(int n) { return 2 * n; }
    __device__ double reduce(double x) { return x / 2; }
    __device__ double item(double x) { return x + 1; }
    __device__ double conj(double x) { return -x; }
    template <class T> struct Elements { static constexpr int value = sizeof(T); };
    template <class T> __device__ T for_each(T x) { return x; }
    struct In {}; struct Out {}; struct Array { int ndim; };
    __device__ const int length = 3, outputs = 4;
    """
    kernel = ElementwiseKernel(
        "T x",
        "T y",
        "y = min(x, 2.0, 3.0) + size(2) + reduce(x) + item(x) + conj(x) + for_each(length) + "
        "Elements<T>::value",
        "own_names",
        preamble=preamble,
    )
    x = np.array([1.0, 4.0])
    expected = np.minimum(x, 2) + 4 + x / 2 + 1 + 3 + 8
    np.testing.assert_array_equal(place.numpy(kernel(place.array(x))), expected)
    compile_for_cuda(kernel, (("T", "float64"),))
    total = ReductionKernel(
        "T x", "T y", "reduce(x)", "a + b", "y = a + outputs", "0", "own_sum", preamble=preamble
    )
    np.testing.assert_array_equal(place.numpy(total(place.array(x))), 6.5)
    compile_for_cuda(total, (("T", "float64"),))


def test_arrays_of_cupys_class(place: ArrayDevice) -> None:
    kernel = ElementwiseKernel(
        "raw T x, raw T m",
        "raw T y",
        "store(y, i, i == 0 ? last(x) + head(x) : i == 1 ? copied(m) : i == 2 ? corner(m) : made())",
        "cupy_arrays",
        preamble=ARRAYS,
    )
    x, m = np.arange(5.0) + 7, np.arange(6.0).reshape(2, 3)
    y = place.zeros(4)
    kernel(place.array(x), place.array(m), y, size=4)
    np.testing.assert_array_equal(place.numpy(y), [18.0, 5.0, 3203.0, 165446.0])
    kernel(place.array(x[::-1])[::-1], place.array(m.T).T, y, size=4)  # with other strides
    np.testing.assert_array_equal(place.numpy(y), [18.0, 5.0, 3203.0, 165446.0])
    compile_for_cuda(kernel, (("T", "float64"),), (1, 2, 1))


def test_type_traits_and_half_of_cupys(place: ArrayDevice) -> None:
    kernel = ElementwiseKernel(
        "float16 x",
        "float16 y",
        "half h = half(x); y = h; y += float16(__hadd(h, h)); y += four<float16>::value;",
        "halves",
        preamble="""
        #include <cupy/float16.cuh>
        template <class T> struct four {
          static const bool is_half = cupy::type_traits::is_same<T, float16>::value;
          typedef typename cupy::type_traits::conditional<is_half, int, char>::type integer;
          static const integer value = sizeof(integer);
        };
        """,
    )
    result = place.numpy(kernel(place.array(np.array([1.5, 2], "float16"))))
    np.testing.assert_array_equal(result, np.array([8.5, 10], "float16"))
    compile_for_cuda(kernel)


# A reference to a class's constant reads memory that the class does not define: zero on a GPU.
CONSTANT = "template <class> struct constant { static const int value = 192; };"


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64", "complex128"])
def test_constants_of_classes_are_operands(dtype: str, place: ArrayDevice) -> None:
    operation = (
        "y = x; y += constant<T>::value; y = y * constant<T>::value; y -= y / constant<T>::value"
    )
    kernel = ElementwiseKernel("T x", "T y", operation, "constants", preamble=CONSTANT)
    result = place.numpy(kernel(place.array(np.array([0, 1, 8], dtype))))
    np.testing.assert_array_equal(result, np.array([191 * 192, 191 * 193, 191 * 200], dtype))


@pytest.mark.parametrize(
    ("dtype", "operation", "constant"),
    [
        *((one, "y = constant<T>::value", "43400000") for one in ("float16", "bfloat16")),
        *((one, "y = x; y += constant<T>::value", "43400000") for one in ("float16", "bfloat16")),
        ("float8_e5m2", "y = x; y *= constant<T>::value", "43400000"),
        ("complex64", "y = constant<T>::value == x", "43400000"),
        ("complex64", "y = x; y /= constant<T>::value", "43400000"),
        ("complex128", "y = pow(x, constant<T>::value)", "4068000000000000"),
        ("V4", "y = constant<T>::value", ", 192;"),
        ("{a: int32}", "y = constant<T>::value", ", 192;"),
        ("{a: int32}", "y = T(constant<T>::value)", ", 192;"),
    ],
)
@pytest.mark.usefixtures("optimized_code")
def test_constants_of_classes_reach_the_gpu(dtype: str, operation: str, constant: str) -> None:
    kernel = ElementwiseKernel("T x", "T y", operation, "constants", preamble=CONSTANT)
    assert constant in compile_for_cuda(kernel, (("T", dtype),), arch="compute_90")


@pytest.mark.parametrize(
    "header",
    [
        "atomics.cuh",
        "bfloat16.cuh",
        "carray.cuh",
        "complex.cuh",
        "complex/complex.h",
        "cuComplex_bridge.h",
        "cuda_workaround.h",
        "float16.cuh",
        "hip_workaround.cuh",
        "math_constants.h",
        "type_dispatcher.cuh",
        "unstructured_void.cuh",
    ],
)
@pytest.mark.parametrize("target", [HOST, Target("sm_90")], ids=str)
def test_each_header_stands_alone_in_raw_sources(header: str, target: Target) -> None:
    text = f"#include <cupy/{header}>\n#include <cupy/{header}>\n__global__ void k(int* x) {{ *x = 1; }}"
    try:
        image = compiled(CudaSource("k.cu", text, ("k",)), target)
    except ToolNotFoundError:
        pytest.skip("no compiler")
    assert set(image.symbols) == {"k"}


def test_a_dispatcher_of_types(place: ArrayDevice) -> None:
    kernel = ElementwiseKernel(
        "int32 number",
        "int32 y",
        "dtype_dispatcher(number, Size{&y}, 100)",
        "sizes",
        preamble="""
        #include <cupy/type_dispatcher.cuh>
        struct Size {
          int* to;
          template <class T> __device__ void operator()(int more) { *to = sizeof(T) + more; }
        };
        """,
    )
    y = place.zeros(15, "int32")
    kernel(place.array(np.arange(15, dtype="int32")), y)
    sizes = [1, 1, 2, 2, 4, 4, 8, 8, 2, 4, 8, 8, 16, 1]
    np.testing.assert_array_equal(place.numpy(y), [*(100 + size for size in sizes), 0])
    compile_for_cuda(kernel)


class TestNames:
    """Names of the user's own where kspec has some too."""

    def test_parameters(self, place: ArrayDevice) -> None:
        kernel = ElementwiseKernel(
            "T x, int32 n, int32 size, int32 _count, T _m, raw T _w",
            "T y",
            "y = x * n + size + _count + _m + _w[i]",
            "named",
        )
        x = place.array([1.0, 2.0])
        result = kernel(x, 10, 100, 1000, 10000.0, place.array([0.25, 0.5]))
        np.testing.assert_array_equal(place.numpy(result), [11110.25, 11120.5])
        compile_for_cuda(kernel, (("T", "float64"),), (1,))

    def test_parameters_of_reductions(self, place: ArrayDevice) -> None:
        kernel = ReductionKernel(
            "T x, int32 n, int32 _count", "T size", "x * n", "a + b", "size = a + _count", "0", "nr"
        )
        np.testing.assert_array_equal(place.numpy(kernel(place.array([1, 2]), 10, 5)), 35)
        compile_for_cuda(kernel, (("T", "int64"),))

    @pytest.mark.parametrize(
        ("own", "fields"),
        [
            ("int n = 7;", {}),
            ("", {"preamble": "#define n 7"}),
            ("", {"preamble": "__device__ const int n = 7;"}),
            ("", {"loop_prep": "int n = 7;"}),
            ("", {"options": ("-Dn=7",)}),
        ],
    )
    def test_n_is_the_users(self, own: str, fields: dict[str, Any], place: ArrayDevice) -> None:
        kernel = ElementwiseKernel("T x", "T y", f"{own} y = x * n", "own_n", **fields)
        np.testing.assert_array_equal(place.numpy(kernel(place.array([1, 2]))), [7, 14])
        compile_for_cuda(kernel, (("T", "int64"),))

    def test_n_is_the_number_of_elements_otherwise(self, place: ArrayDevice) -> None:
        kernel = ElementwiseKernel(
            "T x",
            "T y",
            "y = twice(x) * n",
            "number",
            preamble="template <int n> struct Of {}; __device__ int twice(int n) { return 2 * n; }",
        )
        np.testing.assert_array_equal(place.numpy(kernel(place.array([1, 2]))), [4, 8])

    def test_types_by_number(self, place: ArrayDevice) -> None:
        kernel = ElementwiseKernel(
            "T x, float32 w",
            "Y y",
            "y = out0_type(halved(x) + sizeof(in1_type))",
            "by_number",
            preamble="__device__ out0_type halved(in0_type x) { return out0_type(x) / 2; }",
        )
        y = place.zeros(2)
        kernel(place.array([1, 2]), 1.0, y)
        np.testing.assert_array_equal(place.numpy(y), [4.5, 5.0])
        compile_for_cuda(kernel, (("T", "int64"), ("Y", "float64")))
        count = ReductionKernel(
            "T x", "int64 y", "x != type_in0_raw(0)", "a + b", "y = type_out0_raw(a)", "0", "count"
        )
        np.testing.assert_array_equal(place.numpy(count(place.array([1.0, 0.0, 2.0]))), 2)

    def test_reductions_with_cupys_names(self, place: ArrayDevice) -> None:
        kernel = ReductionKernel(
            "T data, int64 len",
            "int64 y",
            "data == T(0) ? len : _j",
            "min(a, b)",
            "y = _type_reduce(a) + IndexT(0)",
            "len",
            "first_nonzero",
        )
        x = np.array([[0, 0, 3], [0, 5, 0]])
        result = place.numpy(kernel(place.array(x), 99, axis=1))
        # _j is the flat index in the order (reduced axes, kept axes).
        np.testing.assert_array_equal(result, [4, 3])
        np.testing.assert_array_equal(place.numpy(kernel(place.array(x[:, :0]), 99, axis=1)), 99)
        compile_for_cuda(kernel, (("T", "int64"),))


class TestOperations:
    """Text that is unusual, and that a compiler takes."""

    @pytest.mark.parametrize(
        ("operation", "fields", "expected"),
        [
            ("", {}, [9, 9, 9]),
            ("  \n ", {}, [9, 9, 9]),
            ("// nothing", {}, [9, 9, 9]),
            ("y = x; // } it's", {}, [0, 1, 2]),
            ("y = x; /* } { */", {}, [0, 1, 2]),
            ("#define OPEN if (x > 0) {\nOPEN y = x; }", {}, [9, 1, 2]),
            ("OPEN y = x; }", {"preamble": "#define OPEN if (x > 0) {"}, [9, 1, 2]),
            ("OPEN y = x; }", {"options": ("-DOPEN=if(x>0){",)}, [9, 1, 2]),
            ("y = x; \\", {}, [0, 1, 2]),
            ("y = x \\\n + 1; \\\n", {}, [1, 2, 3]),
            ("#if 1\ny = x;\n#else\ny = 2; }\n#endif", {}, [0, 1, 2]),
            ("#pragma unroll\nfor (int k = 0; k < 3; ++k) { y = k; }", {}, [2, 2, 2]),
            ("y = x;", {"loop_prep": "if (true) {", "after_loop": "} // end"}, [0, 1, 2]),
        ],
    )
    def test_runs(
        self, operation: str, fields: dict[str, Any], expected: list[float], place: ArrayDevice
    ) -> None:
        kernel = ElementwiseKernel("T x", "T y", operation, "unusual", **fields)
        x, y = place.array([0.0, 1.0, 2.0]), place.array([9.0, 9.0, 9.0])
        np.testing.assert_array_equal(place.numpy(kernel(x, y)), expected)
        compile_for_cuda(kernel, (("T", "float64"),))

    def test_headers_may_open_what_an_operation_closes(
        self, place: ArrayDevice, tmp_path: Path
    ) -> None:
        (tmp_path / "mine.h").write_text("#define OPEN if (x > 0) {\n")
        kernel = ElementwiseKernel(
            "T x",
            "T y",
            "OPEN y = x; }",
            "opened",
            preamble="#include <mine.h>",
            options=(f"-I{tmp_path}",),
        )
        x, y = place.array([0.0, 1.0]), place.array([9.0, 9.0])
        np.testing.assert_array_equal(place.numpy(kernel(x, y)), [9.0, 1.0])

    def test_what_surely_does_not_match_is_refused(self) -> None:
        with pytest.raises(kspec.SpecError, match="operation: '}' closes nothing"):
            ElementwiseKernel("T x", "T y", "y = x; }", "unmatched")


class TestNumbersForRawParameters:
    def test_each_kind(self, place: ArrayDevice) -> None:
        kernel = ElementwiseKernel(
            "raw T x, raw int32 k, raw T f",
            "T y",
            "y = i < k ? x[i] * f + max(k, 1) : T(f) - k",
            "numbers",
        )
        x, y = place.array([1.0, 2.0, 3.0]), place.zeros(3)
        for number, factor in ((1, 2.0), (2, 3), (np.int32(3), np.float32(4))):
            for _ in range(3):  # checked, then planned
                kernel(x, number, factor, y)
            i = np.arange(3)
            expected = np.where(i < number, (i + 1) * factor + number, factor - number)
            np.testing.assert_array_equal(place.numpy(y), expected)
        compile_for_cuda(kernel, (("T", "float64"),), (1, -1, -1))

    def test_arrays_and_numbers_by_turns(self, place: ArrayDevice) -> None:
        preamble = """
        template <class Any> __device__ double first(const Any& array) { return array[0]; }
        __device__ double first(double number) { return number; }
        """
        kernel = ElementwiseKernel(
            "T x, raw T k", "T y", "y = x + first(k)", "by_turns", preamble=preamble
        )
        x = place.array([1.0, 2.0])
        for _ in range(3):
            np.testing.assert_array_equal(place.numpy(kernel(x, x)), [2.0, 3.0])
        with pytest.raises(kspec.CompileError, match="needs an array, not a number"):
            kernel(x, 5.0)
        np.testing.assert_array_equal(place.numpy(kernel(x, x)), [2.0, 3.0])

    def test_reductions(self, place: ArrayDevice) -> None:
        kernel = ReductionKernel(
            "T x, raw int32 k", "T y", "x * k", "a + b", "y = a + k", "0", "raw_number"
        )
        np.testing.assert_array_equal(place.numpy(kernel(place.array([1, 2]), 10)), 40)
        compile_for_cuda(kernel, (("T", "int64"),), (-1,))

    @pytest.mark.parametrize(
        "operation", ["y = x + k[i]", "y = x + (k) [0]", "y = k.size()", "y = k->x"]
    )
    def test_arrays_stay_arrays(self, operation: str, place: ArrayDevice) -> None:
        kernel = ElementwiseKernel("T x, raw T k", "T y", operation, "indexed")
        message = "indexed: argument k must be an array, not float"
        with pytest.raises(kspec.ArgumentTypeError, match=message):
            kernel(place.array([1.0]), 5.0)

    @pytest.mark.parametrize("value", [None, "5", [1.0]])
    def test_what_is_neither(self, value: Any, place: ArrayDevice) -> None:
        kernel = ElementwiseKernel("T x, raw T k", "T y", "y = k", "neither")
        message = "neither: argument k must be an array or a number, not"
        with pytest.raises(kspec.ArgumentTypeError, match=message):
            kernel(place.array([1.0]), value)

    def test_outputs_stay_arrays(self, place: ArrayDevice) -> None:
        kernel = ElementwiseKernel("T x", "raw T y", "y[i] = x", "written")
        with pytest.raises(kspec.ArgumentTypeError, match="written: argument y must be an array"):
            kernel(place.array([1.0]), 5.0)


class TestSpecFiles:
    """Kernels of one file share a translation unit."""

    def compiled(self, tmp_path: Path, text: str) -> str:
        (tmp_path / "specs").mkdir()
        (tmp_path / "specs" / "k.toml").write_text(text)
        (spec_file,) = load_specs(tmp_path / "specs", tmp_path)
        wanted = [Specialization(spec.name, (), strided(1)) for spec in spec_file.specs]
        names = tuple(one.name_expression for one in wanted)
        source = CudaSource("k.cu", render_file(spec_file), names)
        for target in (HOST, Target("sm_90")):
            assert set(compiled(source, target).symbols) == set(names)
        return source.text

    def test_helpers_of_one_name(self, tmp_path: Path) -> None:
        text = self.compiled(
            tmp_path,
            """
            [elementwise.one]
            inputs = "int32 x"
            outputs = "int32 y"
            preamble = "__device__ int helper(int x) { return x; }"
            operation = "y = helper(x)"
            [elementwise.two]
            inputs = "int32 x"
            outputs = "int32 y"
            preamble = "__device__ int helper(int x) { return 2 * x; }"
            operation = "y = helper(x)"
            """,
        )
        assert "namespace kspec_one {" in text
        assert "namespace kspec_two {" in text

    def test_specializations_are_global_and_stand_once(self, tmp_path: Path) -> None:
        preamble = """'''
        #include <type_traits>
        struct Pair { float a, b; };
        template <> struct std::is_arithmetic<Pair> : std::true_type {};
        '''"""
        text = self.compiled(
            tmp_path,
            f"""
            [elementwise.one]
            inputs = "int32 x"
            outputs = "int32 y"
            preamble = {preamble}
            operation = "y = x + std::is_arithmetic<Pair>::value"
            [reduction.two]
            inputs = "int32 x"
            outputs = "int32 y"
            preamble = {preamble}
            map = "x + std::is_arithmetic<Pair>::value"
            reduce = "a + b"
            post_map = "y = a"
            identity = 0
            """,
        )
        assert text.count("struct Pair {") == 1
        assert "namespace kspec_one {" not in text
