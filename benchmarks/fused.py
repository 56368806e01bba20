"""Fused functions beside `torch.compile` and CuPy's `fuse`: softmax, norms, activations, sums.

The three get the same arrays and allocate their results.  kspec's functions are NumPy code; PyTorch
has functions of its own for most of them, which it compiles.  CuPy's are left out where it cannot
fuse them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import kspec
from benchmarks.machines import Machine
from benchmarks.references import as_tensor
from benchmarks.results import Figure, Throughput
from benchmarks.timing import Call
from kspec.runtime.memory import numpy_dtype

SECTION = "fuse"
ROWS = "fuse rows"
_TARGET = 0.95  # of torch.compile's throughput
_OVER_CUPY = 2.0
_ROW = 4096  # elements of a row
_TOLERANCE = {"float32": 2e-4, "float16": 2e-3, "bfloat16": 1.6e-2}


@dataclass(frozen=True)
class Program:
    """A function in the words of each library.

    Attributes
    ----------
    name : str
        What it is called.
    shapes : callable
        Shapes of its arguments, for a number of elements.
    function : callable
        NumPy code.
    torch : callable
        ``torch(module, *tensors)``.
    cupy : callable or None
        ``cupy(module)`` returns the function for CuPy's `fuse`; None: it cannot fuse it.
    passes : int
        How often arrays of the first one's size are read or written, at the least.
    options : tuple of str
        Compiler options of kspec's kernels.
    section : str
        Where it is listed.
    dtype : str
        Of all arguments.
    target : float
        Fraction to be reached of `of`.
    of : str
        A peer, or ``"copy"``.
    """

    name: str
    shapes: Callable[[int], tuple[tuple[int, ...], ...]]
    function: Callable[..., Any]
    torch: Callable[..., Any]
    cupy: Callable[[Any], Callable[..., Any]] | None
    passes: int
    options: tuple[str, ...] = ()
    section: str = SECTION
    dtype: str = "float32"
    target: float = _TARGET
    of: str = "torch"

    @property
    def label(self) -> str:
        """The name with its section, which patterns are matched with."""
        return f"{self.section}/{self.name}"


def _rows(count: int) -> tuple[tuple[int, ...], ...]:
    return ((count // _ROW, _ROW),)


def _rows_and_row(count: int) -> tuple[tuple[int, ...], ...]:
    return (count // _ROW, _ROW), (_ROW,)


def _two_of_rows(count: int) -> tuple[tuple[int, ...], ...]:
    return (count // _ROW, _ROW), (count // _ROW, _ROW)


def _flat(count: int) -> tuple[tuple[int, ...], ...]:
    return ((count // 16,),)


def _three(count: int) -> tuple[tuple[int, ...], ...]:
    return ((count // 4,),) * 3


def _softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _layer_norm(x: Any, w: Any) -> Any:
    mean, variance = x.mean(axis=1, keepdims=True), x.var(axis=1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * w


def _rms_norm(x: Any, w: Any) -> Any:
    return x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-5) * w


def _gelu(x: Any, b: Any) -> Any:
    y = x + b
    return 0.5 * y * (1 + np.tanh(0.7978845608 * (y + 0.044715 * y * y * y)))


def _cupy_gelu(cupy: Any) -> Callable[..., Any]:
    def gelu(x: Any, b: Any) -> Any:
        y = x + b
        return 0.5 * y * (1 + cupy.tanh(0.7978845608 * (y + 0.044715 * y * y * y)))

    return gelu


def _torch_gelu(torch: Any, x: Any, b: Any) -> Any:
    return torch.nn.functional.gelu(x + b, approximate="tanh")


def _black_scholes(xp: Any, s: Any, k: Any, t: Any) -> Any:
    root = 0.3 * xp.sqrt(t)
    d1 = (xp.log(s / k) + (0.02 + 0.045) * t) / root
    d2 = d1 - root
    return s * _normal(xp, d1) - k * xp.exp(-0.02 * t) * _normal(xp, d2)


def _normal(xp: Any, d: Any) -> Any:
    """Return the normal distribution, by its tanh approximation, which all libraries have."""
    return 0.5 * (1 + xp.tanh(0.7978845608 * (d + 0.044715 * d * d * d)))


def _centred(x: Any) -> Any:
    return (x - x.sum()) * 2


def _mean_variance(x: Any) -> Any:
    return x.mean(axis=1), x.var(axis=1)


def _distance(x: Any, y: Any) -> Any:
    lengths = np.sqrt((x * x).sum(axis=1)) * np.sqrt((y * y).sum(axis=1))
    return 1 - (x * y).sum(axis=1) / lengths


def _cupy_distance(cupy: Any) -> Callable[..., Any]:
    def distance(x: Any, y: Any) -> Any:
        lengths = cupy.sqrt((x * x).sum(axis=1)) * cupy.sqrt((y * y).sum(axis=1))
        return 1 - (x * y).sum(axis=1) / lengths

    return distance


def _torch_distance(torch: Any, x: Any, y: Any) -> Any:
    lengths = torch.sqrt((x * x).sum(1)) * torch.sqrt((y * y).sum(1))
    return 1 - (x * y).sum(1) / lengths


def _of_rows(dtype: str, length: int) -> Iterator[Program]:
    """Return softmax and norms of rows of a length, beside a copy."""
    if dtype == "float32":
        target = 0.95 if length <= 32768 else 0.90
    else:
        target = 0.85 if length <= 32768 else 0.80

    def rows(count: int) -> tuple[tuple[int, ...], ...]:
        return ((count // length, length),)

    def rows_and_row(count: int) -> tuple[tuple[int, ...], ...]:
        return *rows(count), (length,)

    def layer_norm(torch: Any, x: Any, w: Any) -> Any:
        return torch.nn.functional.layer_norm(x, (length,), w)

    def rms_norm(torch: Any, x: Any, w: Any) -> Any:
        return torch.nn.functional.rms_norm(x, (length,), w, 1e-5)

    found: tuple[tuple[str, Any, Any, Any], ...] = (
        ("softmax", rows, _softmax, lambda torch, x: torch.softmax(x, 1)),
        ("layer norm", rows_and_row, _layer_norm, layer_norm),
        ("RMS norm", rows_and_row, _rms_norm, rms_norm),
    )
    for name, shapes, function, peer in found:
        label = f"{name}, {_SHORT[dtype]} {length}"
        yield Program(label, shapes, function, peer, None, 2, (), ROWS, dtype, target, "copy")


_SHORT = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}
_LENGTHS = {
    "float32": (1000, 8192, 32768, 65536, 262_144),
    "bfloat16": (1000, 8192, 32768, 65536, 262_144),
    "float16": (8192, 262_144),
}

PROGRAMS: tuple[Program, ...] = (
    Program("softmax", _rows, _softmax, lambda t, x: t.softmax(x, 1), None, 2),
    Program(
        "layer norm",
        _rows_and_row,
        _layer_norm,
        lambda t, x, w: t.nn.functional.layer_norm(x, (_ROW,), w),
        None,
        2,
    ),
    Program(
        "RMS norm",
        _rows_and_row,
        _rms_norm,
        lambda t, x, w: t.nn.functional.rms_norm(x, (_ROW,), w, 1e-5),
        None,
        2,
    ),
    Program("GELU with bias", _rows_and_row, _gelu, _torch_gelu, _cupy_gelu, 2),
    Program(
        "Black-Scholes",
        _three,
        functools.partial(_black_scholes, np),
        _black_scholes,
        lambda cupy: functools.partial(_black_scholes, cupy),
        4,
    ),
    # Triton, which torch.compile writes for, neither rounds quotients and roots correctly nor keeps
    # the smallest numbers, unless it is asked to.
    Program(
        "Black-Scholes, rounded as Triton's",
        _three,
        functools.partial(_black_scholes, np),
        _black_scholes,
        None,
        4,
        ("--prec-div=false", "--prec-sqrt=false", "--ftz=true"),
    ),
    Program("(x - sum(x)) * 2", _flat, _centred, lambda t, x: (x - x.sum()) * 2,
            lambda cupy: _centred, 3),
    Program(
        "mean and variance",
        _rows,
        _mean_variance,
        lambda t, x: (x.mean(1), x.var(1, correction=0)),
        None,
        1,
    ),
    Program("cosine distance", _two_of_rows, _distance, _torch_distance, _cupy_distance, 2),
    *(
        program
        for dtype, lengths in _LENGTHS.items()
        for length in lengths
        for program in _of_rows(dtype, length)
    ),
)  # fmt: skip


def run(machine: Machine, program: Program) -> Iterator[Throughput | Figure]:
    """Measure a program; yield its throughput, and how much faster than CuPy's it is."""
    shapes = program.shapes(machine.elements)
    first = int(np.prod(shapes[0]))
    fields: dict[str, Any] = {
        "group": program.section,
        "name": program.name,
        "kernel": program.name,
        "layout": ", ".join(map(str, shapes)),
        "nbytes": _itemsize(program) * first * program.passes,
        "elements": first,
        "flops": 0,
        "target": program.target if machine.kind == "cuda" else None,
        "of": program.of,
    }
    try:
        row = Throughput(**fields, **_measure(machine, program, shapes))
    except Exception as error:  # one program must not stop the others
        row = Throughput(**fields, problem=f"{type(error).__name__}: {str(error)[:160]}")
    finally:
        machine.free()
    yield row
    if "CuPy" in row.samples:
        ratio = row.samples["CuPy"].median / row.samples["kspec"].median
        name = f"{program.name}: times as fast as CuPy's fuse"
        yield Figure("fuse beside CuPy", name, ratio, "", _OVER_CUPY, at_least=True)


def _measure(
    machine: Machine, program: Program, shapes: tuple[tuple[int, ...], ...]
) -> dict[str, Any]:
    arrays = [
        _as_dtype(
            machine, machine.random("float32", int(np.prod(shape)), seed), program.dtype
        ).reshape(shape)
        + 0.5
        for seed, shape in enumerate(shapes)
    ]
    device = "host" if machine.kind == "host" else None
    fused = kspec.fuse(device=device, options=program.options)(program.function)
    error = _worst(fused(*arrays), program, arrays)
    if not error <= 1:
        return {"problem": f"WRONG RESULT: error {error:.3g} times what is allowed"}
    samples = {"kspec": machine.time([functools.partial(fused, *arrays)], 0.2)}
    notes = []
    for name, make in _peers(machine, program, arrays).items():
        try:
            samples[name] = machine.time([make()], 0.2)
        except Exception as failure:
            notes.append(f"{name}: {type(failure).__name__}: {str(failure)[:100]}")
    return {"samples": samples, "error": error, "notes": tuple(notes)}


def _peers(machine: Machine, program: Program, arrays: list[Any]) -> dict[str, Callable[[], Call]]:
    peers: dict[str, Callable[[], Call]] = {}
    if "torch" in machine.peers:
        torch = machine.peers["torch"]

        def compiled() -> Call:
            torch._dynamo.reset()  # which compiles no function more than eight times
            tensors = [as_tensor(torch, one) for one in arrays]
            function = torch.compile(functools.partial(program.torch, torch), dynamic=False)
            return functools.partial(function, *tensors)

        peers["torch"] = compiled
    if "cupy" in machine.peers and program.cupy is not None:
        cupy, make = machine.peers["cupy"], program.cupy

        def fused() -> Call:
            function = make(cupy)
            if isinstance(function, functools.partial):  # CuPy names kernels after functions
                bound = function
                function = lambda *given: bound(*given)  # noqa: E731
                function.__name__ = "fused"
            return functools.partial(cupy.fuse()(function), *arrays)

        peers["CuPy"] = fused
    if machine.kind == "host":
        peers["NumPy"] = lambda: functools.partial(program.function, *arrays)
    return peers


def _itemsize(program: Program) -> int:
    return 4 if program.dtype == "float32" else 2


def _as_dtype(machine: Machine, array: Any, dtype: str) -> Any:
    """Return an array of float32 in another type: of torch, for bfloat16 on GPUs."""
    if dtype == "bfloat16" and machine.kind == "cuda":
        if "torch" not in machine.peers:
            raise ModuleNotFoundError("torch, whose arrays may be bfloat16")
        return as_tensor(machine.peers["torch"], array).bfloat16()
    return array.astype(numpy_dtype(dtype))


def _worst(found: Any, program: Program, arrays: list[Any]) -> float:
    """Return the worst error of the first rows, in units of what is allowed, against float64."""
    several = found if isinstance(found, tuple) else (found,)
    rows = min(64, 2**22 // arrays[0].shape[-1]) if arrays[0].ndim == 2 else arrays[0].shape[0]
    given = [
        kspec.asnumpy(one[:rows] if one.shape[0] == arrays[0].shape[0] else one) for one in arrays
    ]
    with np.errstate(all="ignore"):
        wanted = program.function(*[one.astype(np.float64) for one in given])
    worst = 0.0
    for got, want in zip(several, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        part = np.asarray(kspec.asnumpy(got[:rows]), dtype=np.float64)
        scale = np.abs(want) + 1e-2 * np.abs(want).max()
        allowed = _TOLERANCE[program.dtype] * scale
        if program.dtype == "float16":  # whose least numbers have no digits
            allowed += float(np.finfo(np.float16).smallest_subnormal)
        worst = max(worst, float((np.abs(part - want) / allowed).max()))
    return worst
