"""Stencils: sums and medians of neighbours, as fractions of a copy and beside image libraries.

Weights stand in the operation as numbers.  The boundary is "nearest", except in torch, whose
convolutions have zeros outside: its results differ at the edges and its memory traffic does not.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.cases import Case
from benchmarks.kernels import Text
from benchmarks.operands import Operand, Operands, array, square
from benchmarks.references import Ops

SECTION = "stencil"
F16, F32, U8 = "float16", "float32", "uint8"
_s = np.s_

Offsets = tuple[int, ...]
Weights = Mapping[Offsets, float]
# Times as fast as each peer that a stencil has to be.
_TIMES = {"CuPy": 3.0, "torch": 1.2}

# The median of nine: columns are sorted first, which neighbours share.
_SORTED = """
T a{k} = min(u(-1, {x}), u(0, {x})), b{k} = max(u(-1, {x}), u(0, {x})), c{k} = u(1, {x});
T low{k} = min(a{k}, c{k}), rest{k} = max(a{k}, c{k});
T middle{k} = min(b{k}, rest{k}), high{k} = max(b{k}, c{k});
"""
_MEDIAN = (
    "".join(_SORTED.format(k=k, x=k - 1) for k in range(3))
    + """
T low = max(max(low0, low1), low2), high = min(min(high0, high1), high2);
T middle = min(max(middle0, middle1), max(min(middle0, middle1), middle2));
v = max(min(low, high), min(max(low, high), middle));
"""
)
# Compare and exchange, for its reference (Smith, 1996; Devillard, 1998).
_NETWORK = (
    *((1, 2), (4, 5), (7, 8), (0, 1), (3, 4), (6, 7), (1, 2), (4, 5), (7, 8), (0, 3)),
    *((5, 8), (4, 7), (3, 6), (1, 4), (2, 5), (4, 7), (4, 2), (6, 4), (4, 2)),
)


def _box(*reach: int) -> tuple[Offsets, ...]:
    """Return all offsets up to a reach along each axis."""
    return tuple(itertools.product(*(range(-one, one + 1) for one in reach)))


def _star(axes: int) -> tuple[Offsets, ...]:
    """Return the element and its neighbours along one axis."""
    return tuple(one for one in _box(*[1] * axes) if sum(map(abs, one)) <= 1)


def _weights(offsets: tuple[Offsets, ...]) -> Weights:
    """Return weights that add up to about 1 and all differ."""
    count = len(offsets)
    return {one: round((0.5 + k / count) / count, 6) for k, one in enumerate(offsets)}


def _reach(offsets: tuple[Offsets, ...]) -> Offsets:
    return tuple(max(map(abs, column)) for column in zip(*offsets, strict=True))


def _near(x: Any, reach: Offsets, shape: tuple[int, ...], offset: Offsets) -> Any:
    """Return neighbours from an array with edges of `reach`."""
    rows = zip(offset, reach, shape, strict=True)
    return x[tuple(slice(k + before, k + before + n) for k, before, n in rows)]


def _sum_of(weights: Weights) -> Callable[[Ops, Any], Any]:
    reach = _reach(tuple(weights))

    def reference(ops: Ops, u: Any) -> Any:
        x, total = ops.with_edges(ops.wide(u), reach), None
        for offset, weight in weights.items():
            term = weight * _near(x, reach, tuple(u.shape), offset)
            total = term if total is None else total + term
        return total

    return reference


def _dense(weights: Weights) -> Any:
    """Return weights as an array, zeros between them."""
    reach = _reach(tuple(weights))
    found = np.zeros([2 * one + 1 for one in reach])
    for offset, weight in weights.items():
        found[tuple(k + one for k, one in zip(offset, reach, strict=True))] = weight
    return found


def _correlate(name: str, weights: Weights, dtype: str = F32) -> Text:
    reach = _reach(tuple(weights))
    mark = "f" if dtype in (F16, F32) else ""
    terms = (
        f"{weight:.6f}{mark} * (float)u({', '.join(map(str, offset))})"
        for offset, weight in weights.items()
    )

    @functools.cache
    def cupy_weights(module: Any) -> Any:
        return module.asarray(_dense(weights).astype(F32))

    @functools.cache
    def torch_weights(module: Any, kind: Any, device: Any) -> Any:
        return module.as_tensor(_dense(weights)[None, None]).to(device=device, dtype=kind)

    def cupy(module: Any, u: Any, outputs: Any) -> Any:
        from cupyx.scipy.ndimage import correlate

        return correlate(u, cupy_weights(module), output=outputs[0], mode="nearest")

    def torch(module: Any, u: Any, outputs: Any) -> Any:
        call = module.nn.functional.conv2d if len(reach) == 2 else module.nn.functional.conv3d
        return call(u[None, None], torch_weights(module, u.dtype, u.device), padding=reach)

    return Text(
        "elementwise",
        ("T u", "T v", f"v = {' + '.join(terms)}", name),
        _sum_of(weights),
        options=_options(reach),
        flops=2 * len(weights),
        torch=torch,
        torch_name=f"conv{len(reach)}d",
        cupy=cupy,
    )


def _options(reach: Offsets) -> Mapping[str, Any]:
    return {"windows": {"u": {"reach": list(reach), "boundary": "nearest"}}}


def _median() -> Text:
    """Return the median of nine."""

    def reference(ops: Ops, u: Any) -> Any:
        x = ops.with_edges(ops.wide(u), (1, 1))
        values = [_near(x, (1, 1), tuple(u.shape), one) for one in _box(1, 1)]
        for a, b in _NETWORK:
            high = ops.maximum(values[a], values[b])
            values[a], values[b] = values[a] + values[b] - high, high
        return values[4]

    def cupy(module: Any, u: Any, outputs: Any) -> Any:
        from cupyx.scipy.ndimage import median_filter

        return median_filter(u, size=3, output=outputs[0], mode="nearest")

    return Text(
        "elementwise",
        ("T u", "T v", _MEDIAN, "stencil_median"),
        reference,
        options=_options((1, 1)),
        flops=30,
        cupy=cupy,
    )


BOX_3 = _correlate("stencil_3x3", _weights(_box(1, 1)))


def _square(dtype: str = F32, short_of: int = 0) -> Operands:
    return lambda n: [array(dtype, square(n, short_of))]


def _padded(n: int) -> list[Operand]:
    """Return rows with 24 unused elements between them."""
    side = square(n)[0]
    return [array(F32, (side, side + 24), _s[:, :side])]


def _cube(n: int) -> list[Operand]:
    side = max(3, round(n ** (1 / 3)))
    return [array(F32, (side, side, side))]


def _case(name: str, text: Text, inputs: Operands, target: float, **more: Any) -> Case:
    return Case(name, text, inputs, target=target, section=SECTION, times=_TIMES, **more)


_STAR_3D, _BOX_3D = _weights(_star(3)), _weights(_box(1, 1, 1))
CASES = (
    _case("3x3", BOX_3, _square(), 0.92),
    _case("5-point", _correlate("stencil_star", _weights(_star(2))), _square(), 0.92),
    _case("5x5", _correlate("stencil_5x5", _weights(_box(2, 2))), _square(), 0.92),
    _case("7x7", _correlate("stencil_7x7", _weights(_box(3, 3))), _square(), 0.80),
    _case("7-point, 3-D", _correlate("stencil_7_point", _STAR_3D), _cube, 0.88, scale=0.5),
    _case("27-point, 3-D", _correlate("stencil_27_point", _BOX_3D), _cube, 0.88, scale=0.5),
    _case("31 taps in rows", _correlate("stencil_rows", _weights(_box(0, 15))), _square(), 0.85),
    _case(
        "31 taps in columns", _correlate("stencil_columns", _weights(_box(15, 0))), _square(), 0.85
    ),
    _case("f16 3x3", _correlate("stencil_f16", _weights(_box(1, 1)), F16), _square(F16), 0.85),
    _case("uint8 median of 3x3", _median(), _square(U8), 0.6),
    _case("3x3, padded rows", BOX_3, _padded, 0.9, of="3x3"),
    _case("3x3, odd rows", BOX_3, _square(F32, 3), 0.9, of="3x3"),
)
