"""The functions whose way from array code to CUDA C++ is kept as golden text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import kspec
from kspec.fusion.program import ShapedArray


def squared_difference(x: Any, y: Any) -> Any:
    return (x - y) * (x - y)


def gelu_bias(x: Any, bias: Any) -> Any:
    t = x + bias
    return 0.5 * t * (1 + np.tanh(0.7978846 * (t + 0.044715 * t**3)))


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * weight + bias


def rms_norm(x: Any, weight: Any) -> Any:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * weight


def mean_and_variance(x: Any) -> Any:
    return x.mean(0), x.var(0)


def away_from_sum(x: Any) -> Any:
    return (x - np.sum(x)) * 2


def cosine_distance(x: Any, y: Any) -> Any:
    norms = np.sqrt((x * x).sum(-1)) * np.sqrt((y * y).sum(-1))
    return 1 - (x * y).sum(-1) / norms


def black_scholes(price: Any, strike: Any, years: Any, rate: Any, volatility: Any) -> Any:
    spread = volatility * np.sqrt(years)
    d1 = (np.log(price / strike) + (rate + volatility * volatility / 2) * years) / spread
    d2 = d1 - spread
    n1 = 1 / (1 + np.exp(-1.702 * d1))
    n2 = 1 / (1 + np.exp(-1.702 * d2))
    return price * n1 - strike * np.exp(-rate * years) * n2


def farthest(x: Any, y: Any) -> Any:
    return np.argmax(abs(x - y), axis=1)


CLIPPED = kspec.ElementwiseKernel(
    "T x, float32 most",
    "T y, bool is_more",
    "is_more = x > most;\ny = is_more ? T(most) : x",
    "clipped",
)


def kernel_inside(x: Any, most: Any) -> Any:
    y, is_more = CLIPPED(x + 1, most)
    return y - y.mean(-1, keepdims=True), is_more


def cumulative(x: Any, columns: Any) -> Any:
    taken = np.take(x, columns, 1, mode="clip") * 2
    return np.sqrt(np.cumsum(taken * taken, 1)), np.stack([taken, np.roll(taken, 1, 0)])


_ROWS = ShapedArray("float32", (64, 1024))
_ROW = ShapedArray("float32", (1024,))
_HALF = ShapedArray("float16", (64, 1024))
_HALF_ROW = ShapedArray("float16", (1024,))

EXAMPLES: dict[str, tuple[Callable[..., Any], tuple[ShapedArray | str, ...]]] = {
    "squared_difference": (squared_difference, (_ROWS, _ROW)),
    "gelu_bias": (gelu_bias, (_HALF, _HALF_ROW)),
    "softmax": (softmax, (_ROWS,)),
    "layer_norm": (layer_norm, (_HALF, _HALF_ROW, _HALF_ROW)),
    "rms_norm": (rms_norm, (_ROWS, _ROW)),
    "mean_and_variance": (mean_and_variance, (_ROWS,)),
    "away_from_sum": (away_from_sum, (_ROW,)),
    "cosine_distance": (cosine_distance, (_ROWS, _ROWS)),
    "black_scholes": (black_scholes, (_ROW, _ROW, _ROW, "float", "float")),
    "farthest": (farthest, (_ROWS, _ROW)),
    "kernel_inside": (kernel_inside, (_ROWS, "float")),
    "cumulative": (cumulative, (_HALF, ShapedArray("int32", (16,)))),
}
