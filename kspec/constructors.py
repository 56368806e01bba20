"""`ElementwiseKernel` and `ReductionKernel` with CuPy's constructors.

They build the same specs that spec files do, and call through the same runtime; only the source
is rendered and compiled on first use.

>>> import numpy as np
>>> squared_diff = ElementwiseKernel("T x, T y", "T z", "z = (x - y) * (x - y)", "squared_diff")
>>> squared_diff(np.arange(3.0), 1.0)
array([1., 0., 1.])
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from kspec.errors import KspecError, shorten
from kspec.model import dtypes
from kspec.pipeline import LazySource, Source, declare, loader_of, spec_of
from kspec.runtime.kernels import KernelCallable
from kspec.runtime.kernels.elementwise import ElementwiseCallable
from kspec.runtime.kernels.reduction import ReductionCallable

if TYPE_CHECKING:
    from kspec.spec.models import ElementwiseSpec, ReductionSpec

# Fields of specs that CuPy's constructors call differently.
_ARGUMENTS = {
    "inputs": "in_params",
    "outputs": "out_params",
    "map": "map_expr",
    "reduce": "reduce_expr",
    "post_map": "post_map_expr",
}


_NOTHING: Mapping[str, Any] = MappingProxyType({})

Gradients = Mapping[str, str] | KernelCallable[Any]


def _table(value: object) -> object:
    """Return a mapping as a dictionary, which specs take; what is wrong is said there."""
    return dict(value) if isinstance(value, Mapping) else value


def _backward_field(backward: object) -> object:
    """Return the field of a spec for a kernel's gradients."""
    return backward.name if isinstance(backward, KernelCallable) else backward


def _gradients(source: Source, backward: object) -> Callable[[], KernelCallable[Any]] | None:
    """Return a function that returns the kernel of the gradients, or None if there are none."""
    if backward is None:
        return None
    from kspec.spec.faults import Fault, error_for
    from kspec.spec.gradients.kernels import gradient_spec, kernel_faults

    spec: Any = source.spec
    if isinstance(backward, KernelCallable):
        wrong = tuple(kernel_faults(spec, backward.declaration))
        if wrong:
            raise error_for(spec.name, wrong)
        return functools.partial(_itself, backward)
    if spec.backward is None:
        return None
    if isinstance(spec.backward, str):
        message = f"pass the kernel {spec.backward!r} itself, or an expression for each input"
        raise error_for(spec.name, (Fault(("backward",), message),))
    made, faults = gradient_spec(spec)
    if made is None:
        raise error_for(spec.name, faults)
    return functools.partial(_itself, ElementwiseKernel.from_spec(made))


def _itself(kernel: KernelCallable[Any]) -> KernelCallable[Any]:
    return kernel


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
        Merge axes whenever the layout allows it; otherwise ``_ind`` has all of them.
    preamble : str, default ""
        CUDA C++ in front of the kernel, in the global namespace; it may use the type placeholders.
    no_return, return_tuple : bool, default False
        Return None, or a tuple even for a single output.
    options : tuple of str, optional
        Compiler options.
    loop_prep, after_loop : str, default ""
        Statements before and after a thread's loop over elements.
    backward : mapping of str to str, or kernel, optional
        Gradients: CUDA C++ for each input that has one, in terms of inputs, outputs and the
        gradients ``grad_<output>`` that arrive; or the kernel that computes them.
    windows : mapping of str to mapping, optional
        Inputs that the operation reads at offsets:
        ``{"u": {"reach": [1, 1], "boundary": "wrap"}}``.
    sizes : mapping of str to sequence of int, optional
        Integer placeholders, which calls give by name, with values for a call that gives none.
    samples : mapping of str to mapping, optional
        Raw or windowed inputs that the operation reads between their elements:
        ``{"x": {"order": 1, "boundary": "nearest"}}``.
    threads : {"thread", "warp", "block"}
        Who has an item of core dimensions: one thread, or the 32 or 128 of a warp or a block.

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
        backward: Gradients | None = None,
        windows: Mapping[str, Mapping[str, Any]] = _NOTHING,
        sizes: Mapping[str, Sequence[int]] = _NOTHING,
        samples: Mapping[str, Mapping[str, Any]] = _NOTHING,
        threads: str = "thread",
    ) -> None:
        try:
            declaration, self._source = declare(
                "elementwise",
                dict(
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
                    backward=_backward_field(backward),
                    windows=_table(windows),
                    sizes=_table(sizes),
                    samples=_table(samples),
                    threads=threads,
                ),
                _ARGUMENTS,
            )
            gradients = _gradients(self._source, backward)
            super().__init__(declaration, loader_of(self._source), gradients)
        except KspecError as error:
            shorten(error)
            raise

    @classmethod
    def from_spec(cls, spec: ElementwiseSpec) -> ElementwiseKernel:
        """Return the kernel of a spec."""
        kernel = cls.__new__(cls)
        kernel._source = source = LazySource(spec)
        gradients = _gradients(source, spec.backward)
        ElementwiseCallable.__init__(kernel, spec.declaration(), loader_of(source), gradients)
        return kernel

    @property
    def spec(self) -> ElementwiseSpec:
        """The declared kernel, as spec files have it."""
        return cast("ElementwiseSpec", self._source.spec)

    @property
    def operation(self) -> str:
        """CUDA C++ statements for one element."""
        return self.spec.operation

    @property
    def reduce_dims(self) -> bool:
        """As given to the constructor."""
        return self.spec.reduce_dims

    @property
    def preamble(self) -> str:
        """CUDA C++ in front of the kernel."""
        return self.spec.preamble

    @property
    def kwargs(self) -> dict[str, Any]:
        """The constructor's keyword-only arguments `options`, `loop_prep` and `after_loop`.

        Kernels with windows, integer placeholders or samples have `windows`, `sizes` or `samples`
        too.
        """
        spec = self.spec
        given: dict[str, Any] = {
            "options": spec.options,
            "loop_prep": spec.loop_prep,
            "after_loop": spec.after_loop,
        }
        if spec.windows:
            given["windows"] = {name: dict(window) for name, window in spec.windows.items()}
        if spec.sizes:
            given["sizes"] = dict(spec.sizes)
        if spec.samples:
            given["samples"] = {
                name: sample.model_dump(exclude_unset=True) for name, sample in spec.samples.items()
            }
        return given


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
        As CuPy's; a reduction sees no axes, so they are merged anyway.
    preamble : str, default ""
        CUDA C++ in front of the kernel, in the global namespace; it may use the type placeholders.
    options : tuple of str, optional
        Compiler options.
    strict_keys : bool, default False
        Keys out of range are errors of `by_key`, on GPUs such as end the process's use of the GPU;
        otherwise their rows are left out.
    backward : mapping of str to str, or kernel, optional
        Gradients, as for `ElementwiseKernel`; outputs and what arrives for them are read at each
        element of the inputs, and ``count`` is how many of these made one output.
    sizes : mapping of str to sequence of int, optional
        Core dimensions of inputs, with values for builds; calls of others compile them, too.

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
        *,
        strict_keys: bool = False,
        backward: Gradients | None = None,
        sizes: Mapping[str, Sequence[int]] = _NOTHING,
    ) -> None:
        try:
            declaration, self._source = declare(
                "reduction",
                dict(
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
                    strict_keys=strict_keys,
                    backward=_backward_field(backward),
                    sizes=_table(sizes),
                ),
                _ARGUMENTS,
            )
            gradients = _gradients(self._source, backward)
            super().__init__(declaration, loader_of(self._source), gradients)
        except KspecError as error:
            shorten(error)
            raise

    @classmethod
    def from_spec(cls, spec: ReductionSpec) -> ReductionKernel:
        """Return the kernel of a spec."""
        kernel = cls.__new__(cls)
        kernel._source = source = LazySource(spec)
        gradients = _gradients(source, spec.backward)
        ReductionCallable.__init__(kernel, spec.declaration(), loader_of(source), gradients)
        return kernel

    @property
    def spec(self) -> ReductionSpec:
        """The declared kernel, as spec files have it."""
        return cast("ReductionSpec", self._source.spec)

    @property
    def map_expr(self) -> str:
        """Expression of the inputs for one element."""
        return self.spec.map

    @property
    def reduce_expr(self) -> str:
        """Expression that folds ``a`` and ``b`` into one."""
        return self.spec.reduce

    @property
    def post_map_expr(self) -> str:
        """Expression that assigns the outputs from ``a``."""
        return self.spec.post_map

    @property
    def identity(self) -> str:
        """C++ text of the identity, empty if there is none; setting it declares the kernel anew.

        Raises
        ------
        SpecError
            When it is set to anything but an identity.
        """
        return self.spec.identity or ""

    @identity.setter
    def identity(self, identity: Any) -> None:
        fields = {**dict(self.spec), "identity": identity}
        self._source = LazySource(spec_of("reduction", fields, _ARGUMENTS))
        self._declare(self.spec.declaration(), loader_of(self._source))

    @property
    def reduce_type(self) -> str:
        """C++ type or placeholder of the accumulator; by default those of the first output.

        For a placeholder that stands for a 16-bit float, that is ``float``.
        """
        output = self.spec.outputs.params[0]
        default = output.type if output.is_placeholder else dtypes.lookup(output.type).accumulator
        return self.spec.reduce_type or default

    @property
    def reduce_dims(self) -> bool:
        """As given to the constructor."""
        return self.spec.reduce_dims

    @property
    def preamble(self) -> str:
        """CUDA C++ in front of the kernel."""
        return self.spec.preamble

    @property
    def options(self) -> tuple[str, ...]:
        """Compiler options."""
        return self.spec.options
