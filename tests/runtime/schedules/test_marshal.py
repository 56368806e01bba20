"""Parameter bytes: sizes against the C++ compiler's, scalars against NumPy's assignment."""

from __future__ import annotations

import ctypes
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kspec.compiler import ImageCache, compile_source
from kspec.config import cache_dir
from kspec.errors import ArgumentTypeError
from kspec.host.modules import load_module
from kspec.model import dtypes
from kspec.model.definitions import definitions_for, headers_for
from kspec.model.neighbours.windows import BoundWindow
from kspec.model.stages import HOST as HOST_TARGET
from kspec.model.stages import CudaSource, pack_size
from kspec.runtime.driver.device import HOST
from kspec.runtime.memory import ArrayView, c_strides, numpy_dtype
from kspec.runtime.schedules import Axes, marshal, reductions
from kspec.runtime.schedules.elementwise_schedule import (
    Member,
    _strided_schedule,
    choose,
    choose_host,
)
from kspec.runtime.schedules.reduction_schedule import ReductionLoop
from kspec.runtime.schedules.window_schedule import (
    boundary_value,
    choose_windows,
    pack_window,
)


@given(st.integers(1, 2**31 - 1), st.integers(0, 2**31 - 1))
def test_the_divisor_divides(divisor: int, n: int) -> None:
    magic, shift = marshal.divisor(divisor)
    assert magic < 2**32
    high = (n * magic) >> 32
    assert high + n < 2**32  # the kernel adds in 32 bits
    assert (high + n) >> shift == n // divisor


def view(shape: tuple[int, ...], dtype: str) -> ArrayView:
    itemsize = dtypes.lookup(dtype).itemsize
    return ArrayView(4096, shape, c_strides(shape, itemsize), dtype, HOST)


FLOAT, RESULT = Member(4, 4, 4096, False), Member(4, 4, 8192, True)


def windows_elements(shape: tuple[int, ...], axes: int) -> bytes:
    window = BoundWindow("u", ((1, 2),) * axes, "nearest")
    strides = (c_strides(shape, 4),) * 2
    schedule = choose_windows(
        shape, strides, [FLOAT, RESULT], [window], [4], keep_order=True, merge=True, on_host=False
    )
    return schedule.elements


STRUCT = "{x: float32, z: complex128, n: int8[3]}"
ROWS = (*dtypes.TABLE, dtypes.lookup("V3"), dtypes.lookup(STRUCT))
PACKED = {
    **{
        f"kspec::In<{row.ctype}>": marshal.pack_input(None, bytes(row.itemsize), row.name)
        for row in ROWS
    },
    "kspec::In<unsigned long long>": marshal.pack_handle(4096),
    "kspec::Out<float>": marshal.pack_pointer(view((3,), "float32")),
    "kspec::InOut<double>": marshal.pack_pointer(view((3,), "float64")),
    "kspec::Array<float, 0>": marshal.pack_raw(view((), "float32")),
    "kspec::Array<const float, 1>": marshal.pack_raw(view((3,), "float32")),
    "kspec::Array<complex<double>, 3>": marshal.pack_raw(view((2, 3, 4), "complex128")),
    **{
        f"kspec::Sampled<{row.ctype}, {rank}, 1>": marshal.pack_sampled(
            view((2, 3, 4)[:rank], row.name), 0, bytes(row.itemsize)
        )
        for row in dtypes.TABLE
        for rank in (1, 2, 3)
    },
    **{
        f"kspec::Window<{row.ctype}, {axes}>": pack_window(
            BoundWindow("u", ((1, 2),) * axes, "constant", 1), view((2, 3, 4), row.name)
        )
        for row in dtypes.TABLE
        for axes in (1, 2, 3)
    },
    "kspec::Elements<kspec::Windows<1, 8>, 2>": windows_elements((64,), 1),
    "kspec::Elements<kspec::Windows<2, 8>, 2>": windows_elements((9, 6, 64), 2),
    "kspec::Elements<kspec::Windows<3, 8>, 2>": windows_elements((9, 9, 6, 64), 3),
    "kspec::Elements<kspec::Flat, 3>": choose_host(
        Axes((6,), ((4,),) * 3), [FLOAT] * 3, 6
    ).elements,
    "kspec::Elements<kspec::Strided<8>, 3>": _strided_schedule(
        Axes((3, 2), ((4, 8),) * 3), 6, 1
    ).elements,
    "kspec::Elements<kspec::Strided<64>, 1>": _strided_schedule(
        Axes((2,) * 9, ((4,) * 9,)), 512, 1
    ).elements,
    "kspec::Elements<kspec::Rows, 2>": choose(
        Axes((64, 6), ((4, 512), (4, 0))), [FLOAT] * 2, 384
    ).elements,
    "kspec::Elements<kspec::Packs, 2>": choose(
        Axes((9, 6), ((4, 512), (4, 0))), [FLOAT] * 2, 54
    ).elements,
    "kspec::Elements<kspec::Tiles, 2>": choose(
        Axes((64, 64), ((256, 4), (4, 256))), [FLOAT, RESULT], 4096
    ).elements,
    "kspec::Reduction<kspec::Strided<8>, 2, 1>": reductions.choose_host(
        Axes((3,), ((4,),) * 3), Axes((2,), ((4,),) * 2)
    ).pack(0),
    "kspec::Reduction<kspec::Lines, 2, 1>": ReductionLoop(
        Axes((3,), ((16384,), (16384,), (4,))),
        Axes((4096,), ((4,),) * 2),
        [FLOAT] * 2,
        1,
        lambda *_: 1,
    )
    .schedule()
    .pack(0),
    "kspec::Reduction<kspec::Columns, 1, 1>": ReductionLoop(
        Axes((64,), ((4,), (4,))), Axes((99999,), ((256,),)), [FLOAT], 1, lambda *_: 1
    )
    .schedule()
    .pack(0),
}


HEADERS = (
    *headers_for(row.name for row in ROWS),
    *("kspec/elements.cuh", "kspec/reduce.cuh", "kspec/windows.cuh", "kspec/sample.cuh"),
)
PROLOGUE = "".join(f'#include "{name}"\n' for name in (*HEADERS, "kspec/pack.cuh"))
PROLOGUE += "\n".join(definitions_for([STRUCT])) + "\n"


def test_packed_sizes_are_the_compilers() -> None:
    types = list(PACKED)
    params = ", ".join(f"{ctype} p{number}" for number, ctype in enumerate(types))
    source = CudaSource("sizes.cu", f"{PROLOGUE}__global__ void sizes({params}) {{}}\n", ("sizes",))
    image = compile_source(source, HOST_TARGET, ImageCache(cache_dir()))
    kernel = load_module(image).get_kernel(image.symbols["sizes"])
    assert dict(zip(types, kernel.parameter_sizes, strict=True)) == {
        ctype: len(packed) for ctype, packed in PACKED.items()
    }


# A kernel's parameter, what it reads of `s` as integers, and the numbers that were packed.
FIELDS = {
    "kspec::Sampled<T, 2, 3>": (
        "(long long)s.data_, s.size(), s.shape()[0], s.shape()[1], s.strides()[0], s.strides()[1], "
        "s.contiguous_, s.boundary",
        lambda dtype: marshal.pack_sampled(
            ArrayView(4096, (5, 7), (-3, 40), dtype, HOST), 4, boundary_value(1, dtype, "")
        ),
        [4096, 35, 5, 7, -3, 40, 0, 4],
    ),
    "kspec::Window<T, 2>": (
        "(long long)s.data, s.boundary(), s.extents[0], s.extents[1], s.before[0], s.before[1], "
        "s.after[0], s.after[1], s.first[0], s.first[1]",
        lambda dtype: pack_window(
            BoundWindow("u", ((1, 2), (3, 4)), "valid", 1),
            ArrayView(4096, (9, 5, 7), (1000, -3, 40), dtype, HOST),
        ),
        [4096, 5, 7, 5, 3, 1, 4, 2, 3, 1],
    ),
}


@pytest.mark.parametrize("param", FIELDS)
def test_kernels_find_what_was_packed(param: str) -> None:
    fields, pack, wanted = FIELDS[param]
    text = (
        f"{PROLOGUE}template <class T> __global__ void look({param} s, long long* out, T* value) {{\n"
        f"  const long long found[] = {{{fields}}};\n"
        "  for (int k = 0; k < (int)(sizeof(found) / sizeof(found[0])); ++k) out[k] = found[k];\n"
        "  *value = s.value;\n}\n"
    )
    names = {row.name: f"look<{row.ctype}>" for row in dtypes.TABLE}
    source = CudaSource("look.cu", text, tuple(names.values()))
    image = compile_source(source, HOST_TARGET, ImageCache(cache_dir()))
    module = load_module(image)
    for dtype, name in names.items():
        found, value = np.zeros(len(wanted), "int64"), np.zeros((), numpy_dtype(dtype))
        pointers = [struct.pack("P", one.ctypes.data) for one in (found, value)]
        block = marshal.PackedParameters([pack(dtype), *pointers])
        module.get_kernel(image.symbols[name]).launch((1, 1, 1), (1, 1, 1), block.address)
        assert (dtype, found.tolist()) == (dtype, wanted)
        assert value == 1


def test_packs_are_of_the_compilers_size() -> None:
    sizes = {f"kspec::In<{row.ctype}>": pack_size([row.pack_width]) for row in ROWS}
    sizes["kspec::In<short>, kspec::Out<double>"] = 2
    asserts = "".join(
        f'static_assert((int)kspec::PackSize<{args}>::value == {size}, "{args}");\n'
        for args, size in sizes.items()
    )
    text = f"{PROLOGUE}{asserts}__global__ void k() {{}}\n"
    compile_source(CudaSource("packs.cu", text, ("k",)), HOST_TARGET, ImageCache(cache_dir()))


def test_a_parameter_block_points_at_aligned_copies() -> None:
    block = marshal.PackedParameters([b"abc", bytes(range(20)), b"z"])
    table = (ctypes.c_void_p * 3).from_address(block.address)
    assert block.sizes == (3, 20, 1)
    assert all(address % 16 == 0 for address in table)
    assert ctypes.string_at(table[1], 20) == bytes(range(20))
    assert ctypes.string_at(table[2], 1) == b"z"


@pytest.mark.parametrize(
    ("value", "dtype", "want"),
    [
        (2.7, "int32", 2),
        (-3.7, "int8", -3),
        (True, "float32", 1),
        (np.float64(0.1), "float32", np.float32(0.1)),
        (np.int64(-1), "int16", -1),
        (1 + 2j, "complex64", 1 + 2j),
        (0.1, "float16", np.float16(0.1)),
        (2**64 - 1, "uint64", 2**64 - 1),
        (3, "bool", True),
    ],
)
def test_scalars_are_assigned_as_numpy_does(value, dtype: str, want) -> None:
    data = marshal.convert_scalar(value, dtype)
    assert np.frombuffer(data, numpy_dtype(dtype))[0] == want


@pytest.mark.parametrize(
    ("value", "dtype", "error", "message"),
    [
        (300, "int8", OverflowError, "out of bounds for int8"),
        (-1, "uint32", OverflowError, "out of bounds for uint32"),
        (np.int64(300), "int8", OverflowError, "out of bounds for int8"),
        (2**70, "float32", OverflowError, "too large"),
        (float("nan"), "int32", ValueError, "NaN to integer"),
        (1j, "float32", ArgumentTypeError, "cannot pass 1j as float32"),
    ],
)
def test_scalars_that_do_not_fit(value, dtype: str, error, message: str) -> None:
    with pytest.raises(error, match=message):
        marshal.convert_scalar(value, dtype)


def test_a_numpy_complex_loses_its_imaginary_part_with_a_warning() -> None:
    with pytest.warns(np.exceptions.ComplexWarning):
        data = marshal.convert_scalar(np.complex64(2 + 3j), "float32")
    assert np.frombuffer(data, np.float32)[0] == 2
