"""CuPy's functions inside fused functions, with NumPy's results, and NumPy's spellings of them.

Where CuPy is installed these are its own, for arrays on the host as well: no GPU is needed to trace
them. Everywhere, proxies ask what CuPy's functions ask, and pass on what they pass on.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from kspec import fuse
from kspec.errors import FusionError
from tests.devices import DEVICES, ArrayDevice, ready

DTYPES = ["?", "i1", "i4", "i8", "u1", "u8", "f2", "f4", "f8", "c8"]


@dataclass(frozen=True)
class Kernel:
    """A ufunc or reduction, of which only the name and the number of inputs are asked."""

    name: str
    nin: int

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        for one in args:
            if hasattr(one, "__cupy_override_elementwise_kernel__"):
                return one.__cupy_override_elementwise_kernel__(self, *args, **keywords)
        if _asked().is_fusing():
            return _asked().call_ufunc(self, *args, **keywords)
        return "an array on a GPU"


def _asked() -> Any:
    return sys.modules["cupy._core._fusion_thread_local"]


class Alike:
    """Functions that look at their arguments as CuPy's do."""

    negative, invert, sinc = (Kernel(f"cupy_{name}", 1) for name in ("negative", "invert", "sinc"))
    add, fix = Kernel("cupy_add", 2), Kernel("cupy_fix", 1)

    def _reduction(name: str) -> Any:  # type: ignore[misc]
        def function(a: Any, axis: Any = None, dtype: Any = None, out: Any = None,
                     keepdims: bool = False) -> Any:  # fmt: skip
            if getattr(_asked().thread_local, "is_new_fusing", False):  # no frame of its own
                if keepdims:
                    raise NotImplementedError
                suffix = "_with_dtype" if dtype else ""
                keywords = {"dtype": dtype} if name not in ("all", "any", "max") else {}
                kernel = Kernel(f"cupy_{name}{suffix}", 1)
                return _asked().call_reduction(kernel, a, axis=axis, out=out, **keywords)
            return getattr(a, name)(axis=axis, out=out, keepdims=keepdims)

        return staticmethod(function)

    all, any, amax = _reduction("all"), _reduction("any"), _reduction("max")
    sum, prod = _reduction("sum"), _reduction("prod")
    nansum, nanprod = _reduction("nansum"), _reduction("nanprod")

    def _ufunc(name: str, nin: int) -> Any:  # type: ignore[misc]
        def function(*args: Any, out: Any = None) -> Any:
            if _asked().is_fusing():
                return _asked().call_ufunc(Kernel(f"cupy_{name}", nin), *args, out=out)
            raise TypeError("not an array of CuPy's")

        return staticmethod(function)

    real, imag, copy = _ufunc("real", 1), _ufunc("imag", 1), _ufunc("copy", 1)
    clip, where = _ufunc("clip", 3), _ufunc("where", 3)

    @staticmethod
    def around(a: Any, decimals: int = 0, out: Any = None) -> Any:
        return Alike._ufunc("round", 2).__func__(a, decimals, out=out)

    @staticmethod
    def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = None) -> None:
        if where is None:
            Kernel("cupy_copy", 1)(src, dst)
        elif _asked().is_fusing():
            _asked().call_ufunc(Kernel("cupy_where", 3), where, src, dst, dst)
        else:
            raise TypeError("not an array of CuPy's")


def _module() -> types.ModuleType:
    """Return what CuPy keeps for each thread while it traces, and functions that look there."""
    module: Any = types.ModuleType("cupy._core._fusion_thread_local")
    local = module.thread_local = threading.local()
    module.is_fusing = lambda: bool(getattr(local, "is_new_fusing", False))
    module.call_ufunc = lambda *args, **keywords: local.history.call_ufunc(*args, **keywords)
    module.call_reduction = lambda *args, **keywords: local.history.call_reduction(
        *args, **keywords
    )
    made: types.ModuleType = module
    return made


@pytest.fixture(params=["alike", "cupy"])
def cupy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """CuPy, and what is like it."""
    if request.param == "cupy":
        yield pytest.importorskip("cupy")
        return
    with contextlib.suppress(ImportError):  # of which a part is replaced, but not while it begins
        importlib.import_module("cupy")
    module = _module()
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(Alike._reduction.__globals__, "__name__", "cupy._alike")
    yield Alike
    assert not module.is_fusing()
    assert not hasattr(module.thread_local, "history")


# CuPy's own arrays know its functions: what is like it is for the others.
@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> ArrayDevice:
    return ready(request.param)


def of(lines: str, cupy: Any) -> Callable[..., Any]:
    """Return a function of x, y, s that says `cupy`."""
    space: dict[str, Any] = {"cupy": cupy, "np": np}
    body = "".join(f"    {line}\n" for line in lines.split("; "))
    exec(f"def f(x, y=None, s=None):\n{body}", space)
    function: Callable[..., Any] = space["f"]
    return function


def check(lines: str, cupy: Any, device: ArrayDevice, *args: Any) -> None:
    """Compare a function of CuPy's functions with the one of NumPy's."""
    plain = [one.copy() if isinstance(one, np.ndarray) else one for one in args]
    given = [device.array(one) if isinstance(one, np.ndarray) else one for one in args]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        wanted = of(lines, np)(*plain)
    found = fuse(device="host")(of(lines, cupy))(*given)
    pairs = [*zip(found or (), wanted or (), strict=True), *zip(given, plain, strict=True)]
    for one, other in pairs:
        if not isinstance(one, device.kind):
            assert type(one) is type(other)
            assert one == other
            continue
        other = np.asarray(other)
        values = device.numpy(one)
        assert values.dtype == other.dtype
        bound = 4e-3 if other.dtype == "f2" else 3e-5
        np.testing.assert_allclose(values, other, rtol=bound, atol=bound / 10)


def elements(dtype: str) -> Any:
    """Return elements of a dtype, NaN and 0 among them."""
    kind = np.dtype(dtype).kind
    values = np.array([[0, 1, 2, 3], [1, 1, 0, 2], [2, 3, 1, 1]])
    if kind in "fc":
        values = values * 1.37
    if kind == "c":
        values = values + 0.5j * values.T.reshape(3, 4)
    found = values.astype(dtype)
    if kind in "fc":
        found[1, 2] = np.nan
    return found


# Each group is one kernel.
REDUCED = (
    "cupy.all(x, axis=1)", "cupy.any(x, 1)", "cupy.nansum(x, axis=1)", "cupy.nanprod(x, axis=1)",
    "cupy.nansum(x, 1, dtype='c16')", "cupy.sum(x, axis=1)", "cupy.amax(x, axis=1)",
)  # fmt: skip
OF_ELEMENTS = (
    "cupy.real(x)", "cupy.imag(x)", "cupy.copy(x)", "cupy.around(x)", "cupy.around(x, 1)",
    "cupy.around(x, -1)", "cupy.sinc(x)", "cupy.negative(x)", "-x", "cupy.invert(x)", "~x",
    "cupy.clip(x, 1, 2)", "cupy.where(x > 1, x, 1)",
)  # fmt: skip


@pytest.mark.parametrize("group", [REDUCED, OF_ELEMENTS], ids=["reduced", "of elements"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_functions_of_all_types(
    cupy: Any, device: ArrayDevice, dtype: str, group: tuple[str, ...]
) -> None:
    x = elements(dtype)
    kept = []
    for text in group:
        try:
            with np.errstate(all="ignore"):
                of(f"return {text}", np)(x)
        except TypeError:
            with pytest.raises(TypeError):
                fuse(device="host")(of(f"return {text}", cupy))(device.array(x))
        else:
            kept.append(text)
    check(f"return {', '.join(kept)}", cupy, device, x)
    check(f"return {', '.join(kept).replace('cupy', 'np')}", cupy, device, x)


def test_reductions_of_everything(cupy: Any, device: ArrayDevice) -> None:
    check("return cupy.all(x), cupy.any(x), cupy.nansum(x), cupy.nanprod(x), cupy.nansum(x, (0, 1))",
          cupy, device, elements("f4"))  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
def test_copyto_of_all_types(cupy: Any, device: ArrayDevice, dtype: str) -> None:
    x, y = elements(dtype), elements("f4").astype("f4")
    y = np.nan_to_num(y).astype(dtype)[::-1]
    check("cupy.copyto(x, y[0]); cupy.copyto(y, x * y, where=y > x)", cupy, device, x, y)
    check("cupy.copyto(x, True); cupy.copyto(y, x); return x * 2, y", cupy, device, x, y)


@pytest.mark.parametrize("s", [3, 2.5, True, np.int8(3), np.float32(2.5), np.True_, np.uint8(7)])
def test_functions_of_scalars(cupy: Any, device: ArrayDevice, s: Any) -> None:
    """A scalar is what NumPy makes of it, beside arrays and returned by itself."""
    x = np.arange(4, dtype="i1")
    of_cupy, of_numpy = [], []
    for text in ("cupy.negative(s)", "cupy.invert(s)", "cupy.real(s)", "cupy.imag(s)",
                 "cupy.sinc(s)", "cupy.around(s)", "cupy.add(s, 1)", "cupy.negative(3)",
                 "cupy.invert(3)", "cupy.invert(True)", "cupy.nansum(s)", "cupy.all(s)"):  # fmt: skip
        numpys = text.replace("cupy.", "np.")
        if "s" in text.partition("(")[2]:
            numpys = numpys.replace("s)", "s + 0 * s)") if isinstance(s, float) else numpys
        try:
            of(f"return {numpys}", np)(x, None, s)
        except TypeError:
            with pytest.raises(TypeError):
                fuse(device="host")(of(f"return x + {text}", cupy))(device.array(x), None, s)
            continue
        if text.startswith(("cupy.real", "cupy.imag")):
            continue  # of Python's numbers they are Python's in NumPy, and arrays in CuPy
        of_cupy += f"x + {text}", f"x * ({text} + {text})"
        of_numpy += f"x + {numpys}", numpys
    for texts in of_cupy, of_numpy:
        check(f"return {', '.join(texts)}", cupy, device, x, None, s)


def test_parts_of_scalars(cupy: Any, device: ArrayDevice) -> None:
    x = np.arange(4, dtype="f4")
    for s in (2 + 3j, np.complex64(2 + 3j), 2, 2.5, np.float32(2.5)):
        check("return x + np.real(s), x + s.imag, np.imag(s), s.real", cupy, device, x, None, s)
        check("return x * cupy.real(s), x * cupy.imag(s)", cupy, device, x, None, s)


def test_keepdims_out_and_methods(cupy: Any, device: ArrayDevice) -> None:
    x = elements("f8")
    check("return cupy.sum(x, axis=1, keepdims=True) + x, x - cupy.amax(x, axis=0, keepdims=True)",
          cupy, device, x)  # fmt: skip
    check("cupy.nansum(x, axis=0, out=y); cupy.around(x, 1, out=x)", cupy, device, x, np.ones(4))
    check("cupy.clip(x, 0, 1, out=y); cupy.negative(x, x); return (cupy.fix(x),)",
          cupy, device, x, x * 2)  # fmt: skip


def test_helpers_are_traced_too(cupy: Any, device: ArrayDevice) -> None:
    """What another function calls, and what a closure around the function holds."""
    norm = of("return cupy.nansum(x * x)", cupy)
    x = elements("f4")
    found = fuse(device="host")(lambda x: x / norm(x))(device.array(x))
    np.testing.assert_allclose(device.numpy(found), x / np.nansum(x * x), rtol=1e-6)


def test_nothing_is_left_behind(cupy: Any) -> None:
    """Behind a function that is refused, and on other threads, CuPy does not trace."""
    seen = []

    def function(x: Any) -> Any:
        thread = threading.Thread(target=lambda: seen.append(_asked().is_fusing()))
        thread.start()
        thread.join()
        seen.append(_asked().is_fusing())
        return cupy.all(x).item()

    with pytest.raises(FusionError, match="item"):
        fuse(device="host")(function)(np.ones(3))
    assert seen == [False, True]
    assert not _asked().is_fusing()


def test_older_and_newer_cupys(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that keeps nothing for each thread is left alone."""
    monkeypatch.setitem(sys.modules, "cupy._core._fusion_thread_local", types.ModuleType("other"))
    np.testing.assert_array_equal(fuse(device="host")(lambda x: x + 1)(np.ones(3)), np.full(3, 2.0))


@pytest.mark.gpu
def test_cupys_own_arrays_inside() -> None:
    """Arrays that CuPy's functions make of its own are arrays, not proxies."""
    cupy = importlib.import_module("cupy")
    x = cupy.asarray(elements("f8"))
    with pytest.raises(FusionError, match="a concrete ndarray is fused only if"):
        fuse(lambda x: x + cupy.negative(cupy.ones(4)))(x)
    scale = fuse(lambda x: x * float(cupy.nansum(cupy.ones(4)) + 1))
    np.testing.assert_allclose(cupy.asnumpy(scale(x)), elements("f8") * 5)
