"""Kernels of a package in, reviews of their examples or of given arguments out: ``kspec review``.

::

    for one in reviews(reviewables(plan, package, ["norms.l2norm"]), "H200"):
        print(one.name, one.review)
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np

from kspec.build.package import api
from kspec.build.plan import BuildPlan
from kspec.build.properties import examples
from kspec.build.report.lock import Lock
from kspec.build.report.saved import FIGURES, SavedLine, SavedReview, with_review
from kspec.build.tools.freeze import array_type
from kspec.dataclass import dataclass
from kspec.errors import KspecError, SpecError, UnknownTypeError
from kspec.reviews.call import review
from kspec.reviews.lines import AccessedLine
from kspec.reviews.review import LaunchReview, Review
from kspec.reviews.table import note_of
from kspec.spec.models import Spec

_KEYWORD = re.compile(r"([A-Za-z_]\w*)=(.+)")
_SEED = 20261127
_SHARE = 0.01  # of the requests: lines and launches with fewer do not count


@dataclass(frozen=True)
class Reviewable:
    """A kernel of a package, and the generated function that calls it."""

    module: str
    spec: Spec
    function: Callable[..., Any]

    @property
    def name(self) -> str:
        """Its name with that of its module."""
        return f"{self.module}.{self.spec.name}"


@dataclass(frozen=True)
class Reviewed:
    """A kernel with its review, or why there is none."""

    kernel: Reviewable
    arguments: tuple[str, ...]
    review: Review | None = None
    problem: str = ""


def reviewables(
    plan: BuildPlan, package: ModuleType, names: Sequence[str] = ()
) -> list[Reviewable]:
    """Return kernels by name, with or without their module; without names all with an example.

    Raises
    ------
    SpecError
        If a name is that of no kernel.
    """
    found, known = [], set()
    for unit in plan.units:
        module = getattr(package, unit.stem)
        for spec, context in zip(unit.spec_file.specs, api.functions_of(unit), strict=True):
            own = {spec.name, f"{unit.stem}.{spec.name}"}
            known |= own
            if not own.isdisjoint(names) or (not names and examples.has_example(spec)):
                found.append(Reviewable(unit.stem, spec, getattr(module, context.name)))
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SpecError(f"there is no kernel {unknown[0]!r}")
    return found


def reviews(
    kernels: Sequence[Reviewable], gpu: str, arguments: Sequence[str] = ()
) -> Iterator[Reviewed]:
    """Review kernels, called with arguments, or as their examples say.

    Parameters
    ----------
    kernels : sequence of Reviewable
        The kernels.
    gpu : str
        As of `kspec.review`.
    arguments : sequence of str
        Of the call, as `parse_values` takes them; none: those of the example.
    """
    for one in kernels:
        said, call = _call(one, arguments)
        try:
            yield Reviewed(one, said, review(call, gpu=gpu))
        except KspecError as error:
            yield Reviewed(one, said, problem=f"{type(error).__name__}: {error}")


def _call(one: Reviewable, arguments: Sequence[str]) -> tuple[tuple[str, ...], Callable[[], Any]]:
    if arguments:
        values, keywords = parse_values(arguments)
        return tuple(arguments), lambda: one.function(*values, **keywords)
    if not examples.has_example(one.spec):
        raise SpecError(
            f"{one.name} has no example; say what it is called with: --args float32[4096,1024]"
        )
    call = examples.make_call(one.spec)
    said = tuple(map(_described, call.values.values()))
    return said, examples.bind_call(call, one.function, lambda array: array)


def _described(value: Any) -> str:
    if not isinstance(value, np.ndarray):
        return repr(value)
    return f"{value.dtype}[{','.join(map(str, value.shape))}]"


def parse_values(texts: Sequence[str]) -> tuple[list[Any], dict[str, Any]]:
    """Return arguments by their descriptions: values that are equal each time.

    Parameters
    ----------
    texts : sequence of str
        ``"float32[4096,1024]"`` for an array, of random numbers in [0, 1), or of integers from 0
        to less than its first extent and 100; a number; ``"name=value"`` for a keyword.

    Raises
    ------
    SpecError
        For anything else.

    Examples
    --------
    >>> values, keywords = parse_values(["float32[4,8]", "3", "axis=1"])
    >>> values[0].shape, values[1], keywords
    ((4, 8), 3, {'axis': 1})
    """
    random = np.random.default_rng(_SEED)
    values, keywords = [], {}
    for text in texts:
        keyword = _KEYWORD.fullmatch(text)
        if keyword:
            keywords[keyword[1]] = _value(keyword[2], random)
        else:
            values.append(_value(text, random))
    return values, keywords


def _value(text: str, random: np.random.Generator) -> Any:
    try:
        array = array_type(text)
    except UnknownTypeError as error:
        raise SpecError(f"argument {text!r}: {error}") from None
    if array is not None:
        dtype, shape = array
        if dtype.kind in "iu":
            return random.integers(0, min([100, *shape[:1]]) or 1, shape).astype(dtype)
        return random.random(shape).astype(dtype)
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    raise SpecError(
        f"argument {text!r} is neither an array, as in float32[4096,1024], nor a number"
    )


def updated_lock(lock: Lock, results: Sequence[Reviewed]) -> tuple[Lock, tuple[str, ...]]:
    """Return a lock with the reviews, and the names of the reviewed kernels that it does not have.

    Reviews of other calls stay as long as the source of their kernel is the same.
    """
    kernels = {kernel.key: kernel for kernel in lock.kernels}
    unknown = []
    for one in results:
        kernel = kernels.get((one.kernel.module, one.kernel.spec.name))
        if kernel is None:
            unknown.append(one.kernel.name)
        elif one.review is not None:
            saved = saved_review(one.review, one.arguments, kernel.source[:12])
            kernels[kernel.key] = replace(kernel, reviews=with_review(kernel.reviews, saved))
    return Lock(tuple(kernels.values())), tuple(unknown)


def saved_review(found: Review, arguments: Sequence[str], source: str) -> SavedReview:
    """Return the figures of a review that the lock keeps.

    Parameters
    ----------
    found : Review
        Of a call.
    arguments : sequence of str
        Those of the call.
    source : str
        Beginning of the digest of the kernel's source.

    Notes
    -----
    The figures of lines are those of the worst one. Lines with less than one percent of the
    requests to their kind of memory do not count, and are not kept: a store of a result after a
    loop. So it is with launches, for the share of threads that take part. Time is that of all
    launches.
    """
    lines = tuple(_saved_lines(found))
    time = sum(one.prediction.microseconds for one in found.launches)
    copied = sum(one.prediction.of_copy * one.prediction.microseconds for one in found.launches)
    numbers = {
        "sectors_per_request": max((one.sectors_per_request for one in lines), default=0.0),
        "conflicts": max((one.conflicts for one in lines), default=0.0),
        "warp_efficiency": min(one.warp_efficiency for one in _counting(found.launches)),
        "microseconds": time,
        "of_copy": copied / time if time else 0.0,
    }
    return SavedReview(
        found.slowest.prediction.machine,
        tuple(arguments),
        source,
        {name: round(numbers[name], decimals) for name, (decimals, _) in FIGURES.items()},
        lines,
    )


def _saved_lines(found: Review) -> Iterator[SavedLine]:
    least = {
        space: _SHARE * sum(one.requests for one in found.lines if one.space == space)
        for space in ("global", "shared")
    }
    for launch in found.launches:
        for one in launch.lines:
            if one.requests and one.requests >= least.get(one.space, math.inf):
                yield _saved_line(one, launch)


def _saved_line(one: AccessedLine, launch: LaunchReview) -> SavedLine:
    text = launch.source.get(one.file, ())[one.line - 1 : one.line] if one.line else ()
    return SavedLine(
        one.file,
        one.line,
        "".join(text).strip(),
        note_of(one),
        one.requests,
        round(one.sectors_per_request, FIGURES["sectors_per_request"][0]),
        round(max(0.0, one.conflict_ways - 1), FIGURES["conflicts"][0]),
    )


def _counting(launches: Sequence[LaunchReview]) -> list[LaunchReview]:
    """Return the launches with a share of the requests that counts."""
    requests = [sum(line.requests for line in one.lines) for one in launches]
    least = _SHARE * sum(requests)
    return [one for one, own in zip(launches, requests, strict=True) if own >= least]
