"""Accumulators of reductions: the state kept for the elements seen, and the join of two states.

Each entry of `ACCUMULATORS` makes the `Accumulator` of a reduction; its texts are CUDA C++.
"""

from __future__ import annotations

from collections.abc import Callable

from kspec.dataclass import dataclass
from kspec.fusion.graph import Reduce
from kspec.fusion.types import computed_in
from kspec.ir.builtins import BUILTINS
from kspec.ir.emit import literal
from kspec.model import dtypes


@dataclass(frozen=True)
class Accumulator:
    """Accumulator of a reduction.

    Attributes
    ----------
    ctype : str
        Type of the accumulator.
    element_type : str
        dtype of the elements that it takes.
    identity : str or None
        Accumulator of no elements; None if there is none.
    element : callable
        Text of an element, to that of its accumulator.
    join : callable
        Texts of two, to that of both.
    result : callable
        Text of the accumulator, to the result.
    preamble : str
        Definitions that the texts need.
    needs_index : bool
        Whether `element` mentions ``index``, the position of the element.
    """

    ctype: str
    element_type: str
    identity: str | None
    element: Callable[[str], str]
    join: Callable[[str, str], str]
    result: Callable[[str], str]
    preamble: str = ""
    needs_index: bool = False


def _same(text: str) -> str:
    return text


def _of_function(function: str, start: int | None) -> Callable[[Reduce], Accumulator]:
    """Return a constructor of the accumulator of a function of two elements."""

    def make(value: Reduce) -> Accumulator:
        kept = computed_in(value.dtype)
        row = dtypes.lookup(kept)
        result = dtypes.lookup(value.dtype).ctype
        return Accumulator(
            row.ctype,
            kept,
            None if start is None else literal(start, kept),
            _same,
            lambda a, b: BUILTINS[function].spelling(kept, kept).format(a, b),
            _same if kept == value.dtype else lambda a: f"static_cast<{result}>({a})",
        )

    return make


_CANDIDATE = """\
template <class T> struct Candidate {
  T value;
  long long index;
};
// Which of two stands: NaN, then the better one, then the earlier one, in whatever order they come.
template <bool LARGEST, class T>
__device__ inline Candidate<T> better(const Candidate<T>& p, const Candidate<T>& q) {
  const bool p_nan = p.value != p.value, q_nan = q.value != q.value;
  if (p_nan != q_nan) return p_nan ? p : q;
  if (!p_nan && p.value != q.value)
    return kspec::ufunc::less(p.value, q.value) != LARGEST ? p : q;
  return p.index < q.index ? p : q;
}"""


def _of_position(largest: bool) -> Callable[[Reduce], Accumulator]:
    def make(value: Reduce) -> Accumulator:
        dtype = value.input.dtype
        ctype = f"Candidate<{dtypes.lookup(dtype).ctype}>"
        which = "true" if largest else "false"
        return Accumulator(
            ctype,
            dtype,
            None,
            lambda x: f"{ctype}{{{x}, index}}",
            lambda a, b: f"better<{which}>({a}, {b})",
            lambda a: f"{a}.index",
            _CANDIDATE,
            needs_index=True,
        )

    return make


_MOMENTS = """\
// Count, mean, and squares of the deviations from it (Chan, Golub and LeVeque, 1983).
template <class R> struct Moments {
  R mean, squares;
  long long count;
};
template <class R>
__device__ inline Moments<R> together(const Moments<R>& p, const Moments<R>& q) {
  if (p.count == 0) return q;
  if (q.count == 0) return p;
  const long long count = p.count + q.count;
  const R step = q.mean - p.mean, share = R(q.count) / R(count);
  return Moments<R>{p.mean + step * share,
                    p.squares + q.squares + step * step * (R(p.count) * share), count};
}"""


def _squares(value: Reduce) -> Accumulator:
    kept = computed_in(value.dtype)
    real = dtypes.lookup(kept).ctype
    ctype = f"Moments<{real}>"
    return Accumulator(
        ctype,
        kept,
        f"{ctype}{{0, 0, 0}}",
        lambda x: (
            f"{ctype}{{{x}, {x} - {x}, 1}}"
        ),  # NaN if a value is not finite: then there is no mean
        lambda a, b: f"together({a}, {b})",
        lambda a: f"{a}.squares",
        _MOMENTS,
    )


ACCUMULATORS: dict[str, Callable[[Reduce], Accumulator]] = {
    "sum": _of_function("add", 0),
    "prod": _of_function("multiply", 1),
    "max": _of_function("maximum", None),
    "min": _of_function("minimum", None),
    "nanmax": _of_function("fmax", None),
    "nanmin": _of_function("fmin", None),
    "any": _of_function("logical_or", 0),
    "all": _of_function("logical_and", 1),
    "argmax": _of_position(largest=True),
    "argmin": _of_position(largest=False),
    "squares": _squares,
}
