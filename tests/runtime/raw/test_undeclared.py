"""Undeclared arguments of raw kernels: each fits its parameter, or an error says why not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kspec
from tests.devices import ArrayDevice
from tests.profiles import examples

INTEGERS = {
    "signed char": "i1", "unsigned char": "u1", "short": "i2", "unsigned short": "u2",
    "int": "i4", "unsigned": "u4", "long long": "i8", "size_t": "u8",
}  # fmt: skip
PAIR = np.dtype([("p", "i8"), ("v", "f8")])
ONE = np.dtype([("v", "f8")])


def store(ctype: str, before: str = "", target: str = "") -> kspec.RawKernel:
    """Return a kernel that stores its first argument in its second."""
    text = (
        f'{before}\nextern "C" __global__ void k({ctype} v, {target or ctype}* o) {{ o[0] = v; }}'
    )
    return kspec.RawKernel(text, "k")


def hidden(ctype: str) -> kspec.RawKernel:
    """Return the same kernel, whose text does not show the type."""
    return store("Type", f"#define Type {ctype}", ctype)


class TestIntegers:
    @pytest.mark.parametrize("ctype", INTEGERS)
    @pytest.mark.parametrize("make", [store, hidden])
    def test_their_limits(self, make: Any, ctype: str, device: ArrayDevice) -> None:
        dtype = np.dtype(INTEGERS[ctype])
        kernel, out = make(ctype), device.zeros(1, dtype)
        info = np.iinfo(dtype)
        for value in (info.min, info.max, 0, 1, dtype.type(info.max), np.int8(1), np.uint64(3)):
            for _ in range(3):
                kernel((1,), (1,), (value, out))
                assert device.numpy(out)[0] == value
        least, most = (info.min, info.max) if make is store else (-info.max - 1, 2**64)
        for value in (least - 1, most + 1):
            with pytest.raises(OverflowError, match=r"k: (argument 0|Python int)"):
                kernel((1,), (1,), (value, out))

    def test_they_are_named(self, device: ArrayDevice) -> None:
        kernel, out = store("int"), device.zeros(1, "int32")
        kernel((1,), (1,), (5, out))
        for value in (np.int64(2**40 + 5), 2**31, 2**32 - 1, -(2**31) - 1):
            kernel((1,), (1,), (type(value)(7), out))
            message = (
                rf"^k: argument 0 is {value}, but the parameter is 'int v'; "
                r"it takes -2147483648 to 2147483647$"
            )
            with pytest.raises(OverflowError, match=message):
                kernel((1,), (1,), (value, out))
        assert device.numpy(out)[0] == 7

    def test_narrow_ones_are_extended(self, device: ArrayDevice) -> None:
        for make in (store, hidden):
            kernel, out = make("long long"), device.zeros(1, "int64")
            for value in (np.int8(-3), np.uint8(200), np.int32(-5), True, False, np.bool_(True)):
                for _ in range(3):
                    kernel((1,), (1,), (value, out))
                    assert device.numpy(out)[0] == int(value)

    def test_bools(self, device: ArrayDevice) -> None:
        kernel, out = store("bool"), device.zeros(1, "bool")
        for value in (True, 0, 1, np.int64(1), False):
            for _ in range(3):
                kernel((1,), (1,), (value, out))
                assert device.numpy(out)[0] == bool(value)
        with pytest.raises(OverflowError, match=r"the parameter is 'bool v'; it takes 0 to 1$"):
            kernel((1,), (1,), (2, out))


class TestOtherKinds:
    @pytest.mark.parametrize(
        ("ctype", "value", "message"),
        [
            ("int", 1j, "a Python complex, but the parameter is 'int v'; pass an integer"),
            ("int", np.complex64(1), "a numpy.complex64, but the parameter is 'int v'; pass an"),
            ("int", 2.0, "a Python float, but the parameter is 'int v'; pass an integer"),
            ("int", np.float32(2), "a numpy.float32, but the parameter is 'int v'; pass an"),
            ("long long", 2.0, "a Python float, but the parameter is 'long long v'; pass an"),
            ("int", None, "None, but the parameter is 'int v'; pass an integer"),
            ("int", np.zeros((), PAIR)[()], "a struct, but the parameter is 'int v'; pass an"),
            ("float", 1j, "a Python complex, but the parameter is 'float v'; pass a float"),
            ("float", 2, r"a Python int, but the parameter is 'float v'; pass numpy.float32\(2\)"),
            ("double", 2, r"a Python int, but the parameter is 'double v'; pass numpy.float64"),
            ("double", True, r"a Python bool, but the parameter is 'double v'; pass numpy.float64"),
            ("double", np.float32(2), "a numpy.float32, but the parameter is 'double v'; pass num"),
            ("float", 2.0, r"a Python float, in C a double, but .* 'float v'; pass numpy.float32"),
            ("float*", 2.0, r"a Python float, but the parameter is 'float\* v'; pass an array"),
            ("float*", True, r"a Python bool, but the parameter is 'float\* v'; pass an array"),
            ("float*", np.zeros((), PAIR)[()], r"a struct, but .* 'float\* v'; pass an array"),
        ],
    )
    def test_they_are_refused(
        self, ctype: str, value: Any, message: str, place: ArrayDevice
    ) -> None:
        for _ in range(3):
            with pytest.raises(kspec.ArgumentTypeError, match=f"^k: argument 0 is {message}"):
                store(ctype)((1,), (1,), (value, place.zeros(1)))

    @pytest.mark.parametrize("ctype", ["float", "double"])
    def test_zero_is_zero(self, ctype: str, place: ArrayDevice) -> None:
        kernel = store(ctype)
        for _ in range(3):
            out = place.array([5.0], "float32" if ctype == "float" else "float64")
            kernel((1,), (1,), (0, out))
            assert place.numpy(out)[0] == 0
            with pytest.raises(kspec.ArgumentTypeError, match="a Python int, but the parameter"):
                kernel((1,), (1,), (1, out))

    @pytest.mark.parametrize("ctype", ["int", "float", "long long", "double", "short"])
    def test_arrays_for_numbers(self, ctype: str, place: ArrayDevice) -> None:
        for shape in ((), (1,), (3,)):
            with pytest.raises(kspec.ArgumentTypeError, match=rf"is an array, but .* '{ctype} v'"):
                store(ctype)((1,), (1,), (place.zeros(shape), place.zeros(1)))

    @pytest.mark.parametrize(
        ("ctype", "value"), [("int", 1.5), ("int", 1j), ("double", np.float32(1)), ("float", 1.5)]
    )
    def test_sizes_tell_where_text_does_not(
        self, ctype: str, value: Any, place: ArrayDevice
    ) -> None:
        with pytest.raises(kspec.ArgumentTypeError, match=r"the parameter has [48] bytes; pass"):
            hidden(ctype)((1,), (1,), (value, place.zeros(1)))

    def test_templates(self, place: ArrayDevice) -> None:
        code = "template <class T, int N = 1> __global__ void k(T v, T* o) { *o = v; }"
        kernel, out = kspec.RawKernel(code, "k<float>"), place.zeros(1, "float32")
        kernel((1,), (1,), (np.float32(2.5), out))
        assert place.numpy(out)[0] == 2.5
        with pytest.raises(kspec.ArgumentTypeError, match=r"a Python int, but .* 'float v'"):
            kernel((1,), (1,), (2, out))

    def test_a_name_of_the_text_is_its_own(self, place: ArrayDevice) -> None:
        kernel, out = store("half", "typedef float half;", "float"), place.zeros(1, "float32")
        kernel((1,), (1,), (np.float32(2.5), out))
        assert place.numpy(out)[0] == 2.5


class TestStructs:
    CODE = "struct S { long long p; double v; };"

    @pytest.mark.parametrize("spelling", ["S*", "const S*", "S* __restrict__"])
    @pytest.mark.parametrize("count", [3, 2, 1])
    def test_arrays_of_any_length(self, spelling: str, count: int, device: ArrayDevice) -> None:
        body = "*o = s[0].v; ((S*)s)[0].v = 7;"
        code = f'{self.CODE} extern "C" __global__ void k({spelling} s, double* o) {{ {body} }}'
        values = np.zeros(count, PAIR)
        values["v"] = 3
        s, out = device.array(values), device.zeros(1)
        kspec.RawKernel(code, "k")((1,), (1,), (s, out))
        assert device.numpy(out)[0] == 3
        assert device.numpy(s)[0]["v"] == 7

    def test_pointers_that_only_the_compiler_sees(self) -> None:
        for head in ("#define P S*", "typedef S* P;"):
            code = self.CODE + f'\n{head}\nextern "C" __global__ void k(P s) {{ s[0].v = 7; }}'
            for count in (3, 2, 1):
                s = np.zeros(count, PAIR)
                if count == 1 and "typedef" in head:  # reads like a struct
                    with pytest.raises(kspec.ArgumentTypeError, match="a struct, but"):
                        kspec.RawKernel(code, "k")((1,), (1,), (s,))
                    continue
                kspec.RawKernel(code, "k")((1,), (1,), (s,))
                assert s[0]["v"] == 7

    @pytest.mark.parametrize("head", ["", "#define Q S\n"])
    def test_values(self, head: str, place: ArrayDevice) -> None:
        name = "Q" if head else "S"
        code = (
            f'{head}{self.CODE} extern "C" __global__ void k({name} s, double* o) {{ *o = s.v; }}'
        )
        kernel, out = kspec.RawKernel(code, "k"), place.zeros(1)
        s = np.array([(1, 2.5)], PAIR)
        for value in (s, s[0], s.reshape(())):
            kernel((1,), (1,), (value, out))
            assert place.numpy(out)[0] == 2.5
        with pytest.raises(kspec.ArgumentTypeError, match="argument 0 is a"):
            kernel((1,), (1,), (np.repeat(s, 2), out))
        with pytest.raises(kspec.ArgumentTypeError, match=r"a struct of 8 bytes, but .* 16 bytes"):
            kernel((1,), (1,), (np.zeros((), ONE)[()], out))

    def test_values_as_large_as_an_address(self) -> None:
        for name, head in (("S", ""), ("Q", "#define Q S\n")):
            code = f'{head}struct S {{ double v; }}; extern "C" __global__ void k('
            kernel = kspec.RawKernel(code + f"{name} s, double* o) {{ *o = s.v; }}", "k")
            out = np.zeros(1)
            kernel((1,), (1,), (np.array([(2.5,)], ONE), out))
            assert out[0] == 2.5
            with pytest.raises(kspec.ArgumentTypeError, match=r"pass one element, such as x\[0\]"):
                kernel((1,), (1,), (np.zeros(2, ONE), out))


VALUES = st.one_of(
    st.integers(-(2**33), 2**33),
    st.sampled_from([0, 1, -1, 2**31, -(2**31) - 1, 2**63, 2**64 - 1, 1.5, 1j, True, None]),
    st.sampled_from(["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "?"]).flatmap(
        lambda dtype: st.integers(0, 100).map(np.dtype(dtype).type)
    ),
)
KERNELS = {ctype: store(ctype) for ctype in (*INTEGERS, "float", "double", "bool")}
DTYPES = {**INTEGERS, "float": "f4", "double": "f8", "bool": "?"}


@settings(max_examples=examples(300))
@given(st.sampled_from(list(KERNELS)), st.lists(VALUES, min_size=1, max_size=8))
def test_right_or_refused(ctype: str, values: list[Any]) -> None:
    """A kernel sees the number that was given, in first and in repeated calls, or none."""
    out = np.zeros(1, DTYPES[ctype])
    for value in values * 3:
        out[0] = 0
        try:
            KERNELS[ctype]((1,), (1,), (value, out))
        except (kspec.ArgumentTypeError, OverflowError):
            continue
        assert out[0] == value


def test_structs_of_odd_sizes() -> None:
    code = "struct S { unsigned char v[3]; }; "
    code += 'extern "C" __global__ void k(S s, int* o) { *o = s.v[0] + 256 * s.v[2]; }'
    kernel, out = kspec.RawKernel(code, "k"), np.zeros(1, "int32")
    for value in (5, 7, 2**17 + 1):
        kernel((1,), (1,), (value, out))
        assert out[0] == (value & 255) + 256 * (value >> 16)


def test_negative_addresses() -> None:
    code = 'extern "C" __global__ void k(const char* v, long long* o) { *o = (long long)v; }'
    kernel, out = kspec.RawKernel(code, "k"), np.zeros(1, "int64")
    for value in (5, 2**63 - 1, np.uint64(7), 9):
        kernel((1,), (1,), (value, out))
        assert out[0] == int(value)
        with pytest.raises(OverflowError, match=r"is -1, but the parameter is 'const char\* v'"):
            kernel((1,), (1,), (-1, out))
