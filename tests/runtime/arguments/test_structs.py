"""Structured dtypes, raw bytes and 8-bit floats as element types of both kinds of kernel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import kspec
from kspec.model.stages import FLAT, Specialization, Target, strided
from kspec.pipeline import LazySource
from kspec.runtime.memory import dtype_name
from tests.compiling import compiled
from tests.devices import ArrayDevice

POINT = np.dtype([("x", "f4"), ("n", "i4")], align=True)
COPY = kspec.ElementwiseKernel("T x", "T y", "y = x", "copy_any")
RICH = kspec.make_aligned_dtype(
    [
        ("flag", "?"),
        ("point", POINT),
        ("table", "i2", (2, 3)),
        ("z", "c16"),
        ("half", "f2"),
        ("small", ml_dtypes.float8_e4m3fn),
        ("bytes", "V3"),
        ("a name", "u8"),
        ("float", "f4"),
    ]
)


def points(count: int) -> Any:
    array = np.zeros(count, POINT)
    array["x"] = np.arange(count) + 0.5
    array["n"] = np.arange(count)[::-1]
    return array


def rich(count: int) -> Any:
    array = np.zeros(count, RICH)
    random = np.random.default_rng(2)
    array["flag"] = random.integers(0, 2, count)
    array["point"] = points(count)
    array["table"] = random.integers(-99, 99, (count, 2, 3))
    array["z"] = random.normal(size=count) + 1j
    array["half"] = array["float"] = random.normal(size=count)
    array["small"] = random.normal(size=count)
    array["bytes"] = [bytes([k, 7, 9]) for k in range(count)]
    array["a name"] = np.uint64(2**63) + random.integers(0, 99, count, "u8")
    return array


class TestStructs:
    def test_copies(self, device: ArrayDevice) -> None:
        for array in (points(5), rich(6).reshape(2, 3)):
            copied = device.numpy(COPY(device.array(array)))
            assert copied.dtype == array.dtype
            np.testing.assert_array_equal(copied, array)

    def test_strided_and_broadcast(self, place: ArrayDevice) -> None:
        x = place.array(points(12).reshape(3, 4))
        out = place.array(np.zeros((3, 4), POINT))
        COPY(x[::-1, ::-1], out)
        np.testing.assert_array_equal(place.numpy(out), points(12).reshape(3, 4)[::-1, ::-1])
        COPY(x[0], out)
        expected = np.broadcast_to(points(12)[:4], (3, 4))
        np.testing.assert_array_equal(place.numpy(out), expected)

    def test_members_and_fields_by_number(self, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "T p, float32 step",
            "T q, float32 sum",
            "q = p; q.x += step; q.at<1>() = -p.at<1>(); const T* r = &q; sum = r->at<0>() + q.n",
            "members",
        )
        q, total = kernel(place.array(points(4)), 2)
        np.testing.assert_array_equal(place.numpy(q)["x"], points(4)["x"] + 2)
        np.testing.assert_array_equal(place.numpy(q)["n"], -points(4)["n"])
        np.testing.assert_array_equal(place.numpy(total), points(4)["x"] + 2 - points(4)["n"])

    def test_nested_structs_arrays_and_odd_names(self, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "T p",
            "T q",
            "q = p; q.point.x = 9; q.table[1][2] += 1; q.z = conj(p.z); q.half = p.half + 1;"
            "q.at<7>() = 3; q.field_7 += 1; q.at<8>() = 0.5f; q.point = {q.point.x, p.table[0][0]}",
            "nested",
        )
        x = rich(4)
        q = place.numpy(kernel(place.array(x)))
        expected = x.copy()
        expected["point"]["x"] = 9
        expected["point"]["n"] = x["table"][:, 0, 0]
        expected["table"][:, 1, 2] += 1
        expected["z"] = x["z"].conj()
        expected["half"] = (x["half"].astype("f4") + 1).astype("f2")
        expected["a name"] = 4
        expected["float"] = 0.5
        np.testing.assert_array_equal(q, expected)

    def test_any_name_of_a_field(self, place: ArrayDevice) -> None:
        names = ["K", "kspec_0", "complex", "Value", "at", "class", "SELF", "", "ünï", "same_field"]
        dtype = kspec.make_aligned_dtype([(name, "c8") for name in names])
        x = np.zeros(3, dtype)
        for number, name in enumerate(dtype.names):
            x[name] = number + 1j * np.arange(3)
        kernel = kspec.ElementwiseKernel(
            "T p", "T q, bool same", "q = T(0); q = p; q.K += 1; same = p == q", "odd_names"
        )
        q, same = kernel(place.array(x))
        x["K"] += 1
        np.testing.assert_array_equal(place.numpy(q), x)
        assert not place.numpy(same).any()

    def test_constants(self, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "T p", "int32 y", "y = T::field_count * 10000 + T::size * 100 + T::alignment", "facts"
        )
        for dtype, want in ((POINT, 20804), (RICH, 90000 + RICH.itemsize * 100 + 16)):
            y = kernel(place.array(np.zeros(2, dtype)))
            np.testing.assert_array_equal(place.numpy(y), [want, want])

    def test_equality(self, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel("T p, T q", "bool y", "y = p == q && !(p != q)", "equal")
        left, right = rich(9), rich(9)
        for number, name in enumerate(RICH.names):
            right[name][number] = np.zeros((), RICH)[name]
            right["point"]["n"][1] = 77
        right["flag"][0] = ~left["flag"][0]
        y = place.numpy(kernel(place.array(left), place.array(right)))
        assert not y.any()
        assert place.numpy(kernel(place.array(left), place.array(left))).all()

    def test_a_scalar_sets_every_field(self, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel("T p", "T q", "q = p.x > 2 ? T(7.5) : p; ", "filled")
        q = place.numpy(kernel(place.array(points(4))))
        np.testing.assert_array_equal(q["x"], [0.5, 1.5, 7.5, 7.5])
        np.testing.assert_array_equal(q["n"], [3, 2, 7, 7])

    def test_bytes_between_the_fields_are_kept(self, place: ArrayDevice) -> None:
        whole = np.dtype([("x", "f4"), ("y", "i4"), ("z", "f8")])
        out = np.zeros(3, whole)
        out["y"] = 7
        target = place.array(out)
        given = np.ones(3, whole)[["x", "z"]]
        if place.is_host:
            COPY(given, target[["x", "z"]])
            np.testing.assert_array_equal(target, np.array([(1, 7, 1)] * 3, whole))
        assert dtype_name(given.dtype) == "{x: float32, z: float64}"

    def test_fields_out_of_order_and_gaps(self, place: ArrayDevice) -> None:
        dtype = np.dtype(
            {"names": ["b", "a"], "formats": ["f4", "i2"], "offsets": [12, 2], "itemsize": 24}
        )
        x = np.zeros(3, dtype)
        x["a"], x["b"] = [1, 2, 3], [4, 5, 6]
        kernel = kspec.ElementwiseKernel("T p", "float32 y", "y = p.at<0>() * 10 + p.a", "gaps")
        np.testing.assert_array_equal(place.numpy(kernel(place.array(x))), [41, 52, 63])

    def test_raw_arguments(self, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel("raw T p", "float32 y", "y = p[n - 1 - i].x", "raw_struct")
        y = kernel(place.array(points(4)), place.empty(4, "f4"))
        np.testing.assert_array_equal(place.numpy(y), points(4)["x"][::-1])

    def test_records_and_raised_alignment(self, place: ArrayDevice) -> None:
        dtype = kspec.make_aligned_dtype(POINT, alignment=16)
        assert dtype.itemsize == 16
        kernel = kspec.ElementwiseKernel("T p", "int32 y", "y = alignof(T)", "alignment_of")
        np.testing.assert_array_equal(
            place.numpy(kernel(place.array(np.zeros(2, dtype)))), [16, 16]
        )
        if place.is_host:
            np.testing.assert_array_equal(COPY(points(3).view(np.recarray)), points(3))

    def test_scalars(self, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "T p, T q", "float32 y", "y = p.x * 100 + q.x + q.n", "mixed"
        )
        p = place.array(points(2))
        for value, want in (
            (points(3)[1], [52.5, 152.5]),
            (2, [54, 154]),
            (np.float64(2.5), [54.5, 154.5]),
            (np.array((1, 2), "i8, i8")[()], [53, 153]),
        ):
            np.testing.assert_array_equal(place.numpy(kernel(p, value)), want)
        with pytest.raises(TypeError, match="cannot pass"):
            kernel(p, 1j)
        with pytest.raises(TypeError, match="cannot pass"):
            kernel(p, np.array((1, 2, 3), "i4, i4, i4")[()])
        with pytest.raises(OverflowError):
            kernel(p, 2**40)

    def test_mismatched_structs(self, place: ArrayDevice) -> None:
        other = np.dtype([("x", "f4"), ("n", "u4")])
        kernel = kspec.ElementwiseKernel("T p, T q", "T r", "r = p", "two_structs")
        message = r"Type is mismatched.*T is \{x: float32, n: int32\} by p, but q has dtype \{x: float32, n: uint32\}"
        with pytest.raises(TypeError, match=message):
            kernel(place.array(points(2)), place.array(np.zeros(2, other)))

    def test_own_arrays_on_the_host(self) -> None:
        own = kspec.asarray(rich(3), device="host")
        assert own.dtype == RICH
        np.testing.assert_array_equal(np.asarray(own), rich(3))
        np.testing.assert_array_equal(kspec.asnumpy(COPY(own)), rich(3))
        assert "point: {x: float32, n: int32}" in repr(own)
        with pytest.raises(BufferError, match=r"DLPack has no {flag: bool"):
            own.__dlpack__()


class TestReductions:
    def test_a_struct_is_accumulator_and_output(self, device: ArrayDevice) -> None:
        kernel = kspec.ReductionKernel(
            "T p", "T q", "p", "a.x >= b.x ? a : b", "q = a", None, "largest"
        )
        x = points(1000)
        np.random.default_rng(0).shuffle(x)
        best = device.numpy(kernel(device.array(x.reshape(10, 100)), axis=1))
        expected = [row[np.argmax(row["x"])] for row in x.reshape(10, 100)]
        np.testing.assert_array_equal(best, np.array(expected, POINT))
        assert device.numpy(kernel(device.array(x)))[()] == x[np.argmax(x["x"])]

    def test_identity_zero_fills_the_struct(self, place: ArrayDevice) -> None:
        kernel = kspec.ReductionKernel(
            "T p", "T q", "p", "T(a.x + b.x, a.n + b.n)", "q = a", "0", "sums"
        )
        total = place.numpy(kernel(place.array(points(50_000)), axis=0))
        assert total["n"] == 49_999 * 25_000
        np.testing.assert_allclose(total["x"], 50_000**2 / 2, rtol=1e-5)
        assert place.numpy(kernel(place.array(points(0))))[()] == np.zeros((), POINT)

    def test_a_struct_as_reduce_type(self, place: ArrayDevice) -> None:
        kernel = kspec.ReductionKernel(
            "float32 x, T like",
            "T q, float32 mean",
            "T{x, 1}",
            "T{a.x + b.x, a.n + b.n}",
            "q = a; mean = a.x / a.n",
            "0",
            "mean_by_struct",
            reduce_type="T",
        )
        x = np.arange(12, dtype="f4").reshape(3, 4)
        q, mean = kernel(place.array(x), place.array(points(1)), axis=1)
        np.testing.assert_array_equal(place.numpy(mean), x.mean(axis=1))
        np.testing.assert_array_equal(place.numpy(q)["n"], [4, 4, 4])

    @pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
    def test_8_bit_floats_accumulate_in_float(self, dtype: Any, place: ArrayDevice) -> None:
        kernel = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "sum_small")
        ones = np.ones((3, 200), dtype)
        total = place.numpy(kernel(place.array(ones), axis=1))
        assert total.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(total, np.full(3, 200).astype(dtype))


class TestSmallFloats:
    @pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz"])
    def test_fixed_types_compute_in_float(self, name: str, place: ArrayDevice) -> None:
        # CuPy's own arrays cannot hold them.
        dtype = np.dtype(getattr(ml_dtypes, name))
        kernel = kspec.ElementwiseKernel(
            f"{name} x, T y", f"{name} z", "z = x * y + 1", f"fma_{name}"
        )
        x = np.linspace(-2, 2, 50).astype(dtype)
        y = np.linspace(1, 3, 50).astype("f4")
        z = place.numpy(kernel(place.array(x), place.array(y)))
        expected = (x.astype("f8") * y + 1).astype("f4").astype(dtype)
        assert z.dtype == dtype
        np.testing.assert_array_equal(z.view("u1"), expected.view("u1"))

    def test_a_fragment_may_name_them(self, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel("float32 x", "float32 y", "y = float8_e5m2(x)", "through")
        x = np.linspace(-5, 5, 33).astype("f4")
        expected = x.astype(ml_dtypes.float8_e5m2).astype("f4")
        np.testing.assert_array_equal(place.numpy(kernel(place.array(x))), expected)

    def test_dlpack_and_names(self) -> None:
        own = kspec.zeros(3, "float8_e4m3fn", device="host")
        assert own.dtype == np.dtype(ml_dtypes.float8_e4m3fn)
        assert own.__dlpack__() is not None
        np.testing.assert_array_equal(np.asarray(own), np.zeros(3, own.dtype))

    def test_torch(self) -> None:
        torch = pytest.importorskip("torch")
        for name in ("float8_e4m3fn", "float8_e5m2"):
            x = torch.arange(5, dtype=torch.float32).to(getattr(torch, name))
            y = COPY(x)
            assert y.dtype == x.dtype
            assert y.float().tolist() == [0, 1, 2, 3, 4]

    def test_without_ml_dtypes_the_error_says_what_to_install(self) -> None:
        code = (
            "import sys; sys.modules['ml_dtypes'] = None\n"
            "import kspec\n"
            "try: kspec.zeros(3, 'float8_e5m2', device='host')\n"
            "except kspec.ToolNotFoundError as error: print(error)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == "float8_e5m2 needs ml_dtypes: pip install -U ml_dtypes"


class TestRawBytes:
    def test_copies(self, device: ArrayDevice) -> None:
        x = np.array([b"abc", b"defgh", b"\0\1"], "V5")
        np.testing.assert_array_equal(device.numpy(COPY(device.array(x))), x)

    def test_made_from_anything(self, place: ArrayDevice) -> None:
        x = np.array([1, 2, 2**40 + 5], "i8")
        for size in (3, 8, 11):
            kernel = kspec.ElementwiseKernel("int64 x", f"V{size} y", "y = x", f"to_bytes_{size}")
            y = place.numpy(kernel(place.array(x)))
            assert y.dtype == np.dtype(f"V{size}")
            expected = [one.tobytes()[:size].ljust(size, b"\0") for one in x]
            assert [bytes(one) for one in y.tolist()] == expected

    def test_scalars_and_comparison(self, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel("T x, T y", "bool z", "z = x == y", "same_bytes")
        x = place.array(np.array([b"abc", b"abd"], "V4"))
        for value in (np.void(b"abc"), np.void(b"abc\0xyz"), np.uint32(0x636261), 0x636261):
            np.testing.assert_array_equal(place.numpy(kernel(x, value)), [True, False])
        with pytest.raises(TypeError, match=r"cannot pass raw bytes .* as float64"):
            kspec.ElementwiseKernel("T x, T y", "T z", "z = y", "takes_number")(
                place.zeros(2), np.void(b"abc")
            )


class TestRefused:
    @pytest.mark.parametrize(
        ("dtype", "message"),
        [
            ([("a", "i1"), ("b", "f8")], "field 'b' is at offset 1, .* multiple of 8"),
            ([("a", "f8"), ("b", "i1")], "has 9 bytes, but its size must be a multiple of 8"),
            ([("a", "f4"), ("z", "c8")], "field 'z' is at offset 4"),
            ([("a", [("b", "i1"), ("c", "f4")])], r"field 'c' is at offset 1.*\(in field a\)"),
            ([("a", "O")], "field 'a': Unsupported dtype 'object'"),
            ([("a", "S3")], "field 'a': Unsupported dtype 'bytes24'"),
            ([("p", [("a", "U2")])], "field 'p.a': Unsupported dtype"),
            ([("a", ">f4")], "field 'a': Unsupported dtype '>f4': it is not in native byte order"),
            ([("a", "M8[s]")], "field 'a': Unsupported dtype"),
            ([], "a struct without fields"),
            ("V0", "Unsupported dtype 'void'"),
        ],
        ids=str,
    )
    def test_arrays(self, dtype: Any, message: str) -> None:
        with pytest.raises(ValueError, match=rf"copy_any: argument x: .*{message}"):
            COPY(np.zeros(3, dtype))

    def test_the_message_names_the_cure(self) -> None:
        bad = np.dtype([("a", "f4"), ("z", "c8")], align=True)
        with pytest.raises(kspec.UnsupportedDTypeError, match=r"align=True.*make_aligned_dtype"):
            COPY(np.zeros(3, bad))
        good = kspec.make_aligned_dtype(bad)
        np.testing.assert_array_equal(COPY(np.zeros(3, good)), np.zeros(3, good))


class TestMakeAlignedDtype:
    def test_offsets_and_size(self) -> None:
        dtype = kspec.make_aligned_dtype(
            [("a", "i1"), ("z", "c16"), ("n", [("b", "i1"), ("c", "f8")])]
        )
        assert [dtype.fields[name][1] for name in dtype.names] == [0, 16, 32]
        assert dtype.itemsize == 48
        assert dtype["n"].itemsize == 16
        assert dtype.isalignedstruct

    def test_alignment_is_kept_in_metadata_and_by_nesting(self) -> None:
        inner = kspec.make_aligned_dtype([("x", "f4"), ("y", "f4")], alignment=8)
        assert inner.metadata == {"__cuda_alignment__": 8}
        outer = kspec.make_aligned_dtype([("a", "i1"), ("inner", inner)])
        assert outer.fields["inner"][1] == 8
        assert dtype_name(outer) == "{a: int8, inner: {x: float32, y: float32; align 8}}"

    def test_recurse(self) -> None:
        packed = np.dtype([("b", "i1"), ("c", "f8")])
        with pytest.raises(ValueError, match="field 'c' is at offset 1"):
            kspec.make_aligned_dtype([("n", packed)], recurse=False)
        assert kspec.make_aligned_dtype("float32") == np.dtype("f4")

    @pytest.mark.parametrize("alignment", [2, 12, 32])
    def test_impossible_alignments(self, alignment: int) -> None:
        with pytest.raises(ValueError, match=f"alignment {alignment}"):
            kspec.make_aligned_dtype([("x", "f4")], alignment=alignment)
        with pytest.raises(ValueError, match="only structs can have another"):
            kspec.make_aligned_dtype("float64", alignment=16)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "compute_120"])
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "V5", dtype_name(POINT), dtype_name(RICH)])
def test_cuda_compiles_them(dtype: str, arch: str) -> None:
    reduction = kspec.ReductionKernel("T p", "T q", "p", "a == b ? a : b", "q = a", "0", "pick")
    for kernel, layouts in ((COPY, (FLAT, strided(1))), (reduction, (strided(1),))):
        for layout in layouts:
            wanted = Specialization(kernel.__name__, (("T", dtype),), layout)
            image = compiled(LazySource(kernel.spec)(wanted), Target(arch))
            assert list(image.symbols) == [wanted.name_expression]


def test_cuda_compiles_members(tmp_path: Path) -> None:
    kernel = kspec.ElementwiseKernel(
        "T p", "T q", "q = p; q.at<0>() = true; q.point = {1, 2}; q.table[0][1] = q.at<7>()", "uses"
    )
    wanted = Specialization("uses", (("T", dtype_name(RICH)),))
    assert compiled(LazySource(kernel.spec)(wanted), Target("sm_90")).symbols
