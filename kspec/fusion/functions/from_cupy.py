"""CuPy's functions that ask CuPy whether it is tracing, and take its own arrays alone if it is not.

Most of CuPy's functions end in ufuncs and methods, which find proxies by CuPy's protocols. Some
look at their arguments first: `cupy.all`, `cupy.nansum`, `cupy.around`, `cupy.real` and their kin.
When CuPy's own `fuse` traces a function, they pass on their arguments instead, by
variables of the thread; while a function is traced here, these say so.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kspec.fusion import types
from kspec.fusion.refusals import refuse_call
from kspec.fusion.tracing.proxies import Proxy
from kspec.fusion.tracing.tracer import Tracer

CallKernel = Callable[[Tracer, Any, tuple[Any, ...], dict[str, Any]], Any]
_MODULE = "cupy._core._fusion_thread_local"  # of CuPy 11 and later, if it is imported at all
_FLAG, _HISTORY = "is_new_fusing", "history"


@contextmanager
def cupy_tracing(tracer: Tracer, call_kernel: CallKernel) -> Iterator[None]:
    """Have CuPy's functions on this thread call the functions of proxies.

    Parameters
    ----------
    tracer : Tracer
        Of the function that is traced.
    call_kernel : callable
        Returns what one of CuPy's ufuncs or reductions is for proxies.
    """
    local = getattr(sys.modules.get(_MODULE), "thread_local", None)
    if local is None:
        yield
        return
    history = _History(tracer, call_kernel, local)
    with _variables(local, {_FLAG: _Tracing(), _HISTORY: history}):
        yield


@contextmanager
def _variables(local: Any, values: Mapping[str, Any]) -> Iterator[None]:
    """Set variables of the thread, and put them back."""
    before = dict(vars(local))
    vars(local).update(values)
    try:
        yield
    finally:
        for name in values:
            if name in before:
                setattr(local, name, before[name])
            else:
                delattr(local, name)


class _Tracing:
    """Whether a function is traced, as CuPy's functions see it.

    Some of them refuse ``keepdims`` then, and call methods otherwise, which take it.
    """

    def __bool__(self) -> bool:
        caller = sys._getframe(1)
        is_cupys = caller.f_globals.get("__name__", "").startswith("cupy.")
        return not (is_cupys and caller.f_locals.get("keepdims"))


class _History:
    """The object that CuPy's functions call in place of CuPy's own tracer."""

    def __init__(self, tracer: Tracer, call_kernel: CallKernel, local: Any) -> None:
        self._tracer = tracer
        self._call_kernel = call_kernel
        self._local = local

    def call_ufunc(self, ufunc: Any, *args: Any, **keywords: Any) -> Any:
        """Return a ufunc of proxies and numbers; of CuPy's arrays, what CuPy returns."""
        given = [one for one in (*args, keywords.get("out")) if one is not None]
        numbers = all(types.type_of_number(one) is not None for one in given)
        if not numbers and not any(isinstance(one, Proxy) for one in given):
            with _variables(self._local, {_FLAG: False}):
                return ufunc(*args, **keywords)
        return self._call_kernel(self._tracer, ufunc, args, keywords)

    call_reduction = call_ufunc

    def call_indexing(self, function: Any, *args: Any, **keywords: Any) -> Any:
        """Refuse indices that are arrays."""
        name = getattr(function, "name", getattr(function, "__name__", "indexing"))
        refuse_call(name)
