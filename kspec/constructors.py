"""`ElementwiseKernel` and `ReductionKernel` with CuPy's constructors.

They build the same specs that spec files do, and call through the same runtime; only the source
is rendered and compiled on first use.

>>> import numpy as np
>>> squared_diff = ElementwiseKernel("T x, T y", "T z", "z = (x - y) * (x - y)", "squared_diff")
>>> squared_diff(np.arange(3.0), 1.0)
array([1., 0., 1.])
"""

from __future__ import annotations

from typing import Any

from kspec.pipeline import loader_for
from kspec.runtime.elementwise import ElementwiseCallable
from kspec.runtime.reduction import ReductionCallable
from kspec.spec.models import ElementwiseSpec, ReductionSpec, build_spec


class ElementwiseKernel(ElementwiseCallable):
    """A kernel that computes every element by itself.

    Parameters
    ----------
    in_params, out_params : str
        Parameter lists such as ``"T x, raw T y"``: a type and a name, separated by commas. A
        type of one letter is a placeholder that the arguments decide.
    operation : str
        CUDA C++ statements for one element.
    name : str, default "kernel"
        Name of the CUDA kernel.
    reduce_dims : bool, default True
        Accepted for compatibility; axes are merged whenever the layout allows it.
    preamble : str, default ""
        CUDA C++ in front of the kernel; it may use the type placeholders.
    no_return, return_tuple : bool, default False
        Return None, or a tuple even for a single output.
    options : tuple of str, optional
        Compiler options.
    loop_prep, after_loop : str, default ""
        Statements before and after a thread's loop over elements.

    Raises
    ------
    SpecError
        If the kernel is declared wrongly; the message lists every problem.
    """

    def __init__(
        self,
        in_params: str,
        out_params: str,
        operation: str,
        name: str = "kernel",
        reduce_dims: bool = True,
        preamble: str = "",
        no_return: bool = False,
        return_tuple: bool = False,
        *,
        options: tuple[str, ...] = (),
        loop_prep: str = "",
        after_loop: str = "",
    ) -> None:
        self.spec = build_spec(
            ElementwiseSpec,
            name=name,
            inputs=in_params,
            outputs=out_params,
            operation=operation,
            reduce_dims=reduce_dims,
            preamble=preamble,
            no_return=no_return,
            return_tuple=return_tuple,
            options=options,
            loop_prep=loop_prep,
            after_loop=after_loop,
        )
        super().__init__(self.spec.declaration(), loader_for(self.spec))


class ReductionKernel(ReductionCallable):
    """A kernel that folds elements along axes.

    Parameters
    ----------
    in_params, out_params : str
        Parameter lists, as for `ElementwiseKernel`.
    map_expr : str
        Expression of the inputs for one element.
    reduce_expr : str
        Expression that folds ``a`` and ``b`` into one; associative and commutative.
    post_map_expr : str
        Assigns the outputs from ``a``; several statements are allowed.
    identity : str, number or None
        Folded in once for each output, and the value of reducing nothing. None: there is no
        such value, and reducing nothing is an error.
    name : str, default "reduce_kernel"
        Name of the CUDA kernel.
    reduce_type : str, optional
        C++ type of the accumulator; default: that of the first output (float for 16 bits).
    reduce_dims : bool, default True
        Accepted for compatibility.
    preamble : str, default ""
        CUDA C++ in front of the kernel; it may use the type placeholders.
    options : tuple of str, optional
        Compiler options.

    Raises
    ------
    SpecError
        If the kernel is declared wrongly; the message lists every problem.
    """

    def __init__(
        self,
        in_params: str,
        out_params: str,
        map_expr: str,
        reduce_expr: str,
        post_map_expr: str,
        identity: Any,
        name: str = "reduce_kernel",
        reduce_type: str | None = None,
        reduce_dims: bool = True,
        preamble: str = "",
        options: tuple[str, ...] = (),
    ) -> None:
        self.spec = build_spec(
            ReductionSpec,
            name=name,
            inputs=in_params,
            outputs=out_params,
            map=map_expr,
            reduce=reduce_expr,
            post_map=post_map_expr,
            identity=identity,
            reduce_type=reduce_type or "",
            reduce_dims=reduce_dims,
            preamble=preamble,
            options=options,
        )
        super().__init__(self.spec.declaration(), loader_for(self.spec))
