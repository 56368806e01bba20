"""The table of functions on proxies, and what they share."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from kspec.fusion import types
from kspec.fusion.refusals import refuse
from kspec.fusion.tracing.proxies import Proxy
from kspec.fusion.tracing.tracer import Tracer

Function = Callable[..., Any]
FunctionT = TypeVar("FunctionT", bound=Function)
# By NumPy's names; each takes a tracer, and then what NumPy's takes.
FUNCTIONS: dict[str, Function] = {}
MISSING: Any = object()


def write_outputs(results: tuple[Proxy, ...], out: Sequence[Any], name: str) -> Any:
    """Return results, written to the outputs that were given."""
    if out:
        _check_apart([one for one in out if isinstance(one, Proxy)], name)
        for result, target in zip(results, out, strict=True):
            if target is not None:
                if not isinstance(target, Proxy):
                    refuse(f"{name}: out= must be an array that is passed to the function")
                target.assign(result, name)
        results = tuple(
            one if target is None else target for one, target in zip(results, out, strict=True)
        )
    return results[0] if len(results) == 1 else results


def _check_apart(outputs: Sequence[Proxy], name: str) -> None:
    """Refuse outputs of one call that share memory: NumPy's order of writing is not defined."""
    for one, other in itertools.combinations([one.root for one in outputs], 2):
        overlapping = () if one.position is None else one.tracer.overlapping(one.position)
        if one is other or other.position in overlapping:
            refuse(f"{name}: two arrays of out= share memory; pass separate arrays")


def fused_function(function: FunctionT) -> FunctionT:
    """Put a function into the table."""
    FUNCTIONS[function.__name__.rstrip("_")] = function
    return function


def define(
    name: str,
    function: Callable[[Tracer, dict[str, Any]], Any],
    more: Sequence[inspect.Parameter] = (),
    without: Sequence[str] = (),
) -> None:
    """Put a function into the table that has the parameters of NumPy's.

    Parameters
    ----------
    name : str
        Of NumPy's function.
    function : callable
        Takes a tracer, and the arguments that were given by the names of their parameters.
    more : sequence of inspect.Parameter, optional
        Parameters that NumPy's function lacks.
    without : sequence of str, optional
        NumPy's parameters that are not fused.
    """
    numpys = _parameters(name)
    params = [one for key, one in numpys.items() if key not in without]
    params += [one for one in more if one.name not in numpys]
    tracer = inspect.Parameter("tracer", inspect.Parameter.POSITIONAL_ONLY)
    signature = inspect.Signature([tracer, *params])

    def defined(*args: Any, **keywords: Any) -> Any:
        given = signature.bind(*args, **keywords).arguments
        tracer = given.pop("tracer")
        return function(tracer, {k: one for k, one in given.items() if one is not np._NoValue})

    defined.__signature__ = signature  # type: ignore[attr-defined]
    FUNCTIONS[name] = defined


def _parameters(name: str) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(getattr(np, name)).parameters
    except ValueError:  # NumPy 2.0 does not say them for empty_like, which has these
        return inspect.signature(np.zeros_like).parameters


def array_of(tracer: Tracer, given: Any, name: str) -> Proxy:
    """Return an array, or a number as one."""
    if isinstance(given, Proxy):
        return given
    value, _ = tracer.operand(given, name)
    return tracer.wrap(value)


def mask_of(tracer: Tracer, where: Any, name: str) -> Any:
    """Return a ``where=``; NumPy takes no other arrays than of truth values."""
    _, kind = tracer.operand(where, name)
    if kind != "bool" and kind not in types.WEAK:
        refuse(f"{name}: where= must be an array of bool, not of {kind}; compare it with 0")
    return where
