"""One traced call: its types are known, its arrays become those of XLA's foreign function.

The request that XLA keeps does not depend on how often the call is batched: inputs that are not raw
get as many axes as the loop has, and reduced axes are counted from the last, so that batches
are axes in front.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import numpy as np

from kspec.dataclass import dataclass
from kspec.jax.abstract import Evaluation
from kspec.jax.request import Number, Request
from kspec.jax.shards import varying, varying_axes
from kspec.jax.target import NAME, RECORDED
from kspec.model.forms.kinds import REDUCE
from kspec.model.forms.options import indices_of
from kspec.model.shapes import Shape, normalize_axes
from kspec.model.signature import Param
from kspec.runtime.kernels import GeneratedCallable
from kspec.runtime.kernels.elementwise import ElementwiseCallable
from kspec.runtime.kernels.reduction import ReductionCallable
from kspec.runtime.memory import numpy_dtype

# What JAX has instead where it is set to have no 64-bit numbers, as it is at first.
_WIDE = {"int64": "int32", "uint64": "uint32", "float64": "float32", "complex128": "complex64"}


@dataclass(frozen=True)
class TracedCall:
    """A call of an elementwise or reduction kernel.

    Attributes
    ----------
    kernel : kernel
        The kernel.
    name : str
        Its name in programs.
    evaluation : Evaluation
        Types and shapes of inputs and outputs.
    shapes : tuple of tuple of int
        Shapes of the inputs that are arrays.
    numbers : mapping of int to number
        Inputs that are not arrays, by position.
    options : mapping of str to object
        Keyword arguments of the call, all of them.
    callback : bool
        Whether it runs on the host device, by `jax.pure_callback`.
    form : str
        The form of a reduction that is called. Its arrays of integers count as inputs, behind all
        others.
    """

    kernel: GeneratedCallable[Any]
    name: str
    evaluation: Evaluation
    shapes: tuple[Shape, ...]
    numbers: Mapping[int, Number]
    options: Mapping[str, Any]
    callback: bool
    form: str = REDUCE

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        """Return the outputs; the arrays are the inputs that are not numbers."""
        params = self._array_params
        aligned = [
            one if param.raw else _with_axes(one, self._ndim(param))
            for param, one in zip(params, arrays, strict=False)
        ]
        aligned += arrays[len(params) :]
        if self.callback:
            narrow = [self.narrowed(dtype) for _, dtype in self._outputs]
            results = [
                _struct(shape, dtype)
                for (shape, _), dtype in zip(self._outputs, narrow, strict=True)
            ]
            run = functools.partial(self._run, narrow)
            found = jax.pure_callback(run, results, *aligned, vmap_method=self._batching)
        else:
            results = [_struct(shape, dtype) for shape, dtype in self._outputs]
            # Others take scratch memory, which a graph that is replayed would not keep.
            name = RECORDED if isinstance(self.kernel, ElementwiseCallable) else NAME
            call = jax.ffi.ffi_call(name, results, vmap_method=self._batching)
            found = call(*aligned, call=self._request.text)
        axes = varying_axes(map(jax.typeof, arrays))
        return tuple(varying(one, axes) for one in found)

    @property
    def is_reduction(self) -> bool:
        """Whether the outputs have fewer axes than the inputs."""
        return isinstance(self.kernel, ReductionCallable) and self.form == REDUCE

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Dtypes of the inputs that are arrays."""
        inputs = enumerate(self.evaluation.inputs)
        return tuple(dtype for number, dtype in inputs if number not in self.numbers)

    def precision(self) -> AbstractContextManager[object]:
        """Return a context in which JAX has the dtypes of this call, whatever it is set to.

        Callbacks have none: what they take and return has the dtypes that JAX is set to.
        """
        wide = any(one in _WIDE for one in (*self.dtypes, *(dtype for _, dtype in self._outputs)))
        if not wide or self.callback or jax.config.jax_enable_x64:
            return nullcontext()
        context: AbstractContextManager[object] = jax.enable_x64(True)
        return context

    @staticmethod
    def narrowed(dtype: str) -> str:
        """Return the dtype that JAX is set to have in place of one."""
        return dtype if jax.config.jax_enable_x64 else _WIDE.get(dtype, dtype)

    @property
    def _outputs(self) -> tuple[tuple[Shape, str], ...]:
        return self.evaluation.outputs

    @property
    def _array_params(self) -> list[Param]:
        inputs = enumerate(self.kernel.declaration.inputs)
        return [param for number, param in inputs if number not in self.numbers]

    def _ndim(self, param: Param) -> int:
        """Return the number of axes of an argument, with all those of the loop."""
        return len(self.evaluation.shape) + len(param.core)

    @property
    def _batching(self) -> str:
        """Batching method: one array with an axis more, unless the kernel counts elements."""
        declaration = self.kernel.declaration
        counts = declaration.ordered or getattr(declaration, "counts", False)
        alone = counts or any(param.raw for param in declaration.params)
        alone = alone or bool(indices_of(self.form))  # which are of the first axis
        return "sequential" if alone else "expand_dims"

    @property
    def _request(self) -> Request:
        options: dict[str, Any] = {}
        if self.form != REDUCE:
            options |= self._form_options
        elif self.is_reduction:
            ndim = len(self.evaluation.shape)
            reduced = normalize_axes(self.options.get("axis"), ndim, self.name)
            options["axis"] = tuple(axis - ndim for axis in reduced)
            options["keepdims"] = bool(self.options.get("keepdims", False))
        elif all(param.raw for param in self.kernel.declaration.params):
            options["size"] = self.options["size"]
        options |= self.kernel.declaration.shared_options(self.options)
        numbers = tuple(sorted(self.numbers.items()))
        return Request(self.name, numbers, tuple(options.items()), self.form)

    @property
    def _form_options(self) -> dict[str, Any]:
        """Options of another form, with axes counted from the last."""
        options = {name: value for name, value in self.options.items() if name != "dtype"}
        if indices_of(self.form):
            return options
        axis, ndim = options.get("axis", -1), len(self.evaluation.shape)
        several = axis if isinstance(axis, tuple) else (axis,)
        found = tuple(normalize_axes(one, ndim, self.name)[0] - ndim for one in several)
        return options | {"axis": found if isinstance(axis, tuple) else found[0]}

    def _run(self, narrow: Sequence[str], *arrays: Any) -> tuple[Any, ...]:
        """Run the kernel on the host device, on arrays that may have got axes in front."""
        given = [
            np.asarray(one, numpy_dtype(dtype))
            for one, dtype in zip(arrays, self.dtypes, strict=True)
        ]
        batch = self._batch(given)
        outputs = [np.zeros(batch + shape, numpy_dtype(dtype)) for shape, dtype in self._outputs]
        request = self._request
        call = request.called(self.kernel)
        call(*request.inputs(given), *outputs, **dict(request.options))
        return tuple(
            output.astype(numpy_dtype(dtype), copy=False)
            for output, dtype in zip(outputs, narrow, strict=True)
        )

    def _batch(self, arrays: Sequence[np.ndarray[Any, Any]]) -> Shape:
        """Return the axes that arrays of a running call have in front of those of the loop."""
        return np.broadcast_shapes(
            *(
                one.shape[: one.ndim - self._ndim(param)]
                for param, one in zip(self._array_params, arrays, strict=False)
                if not param.raw
            )
        )


def _with_axes(array: Any, ndim: int) -> Any:
    return array.reshape((1,) * (ndim - array.ndim) + array.shape)


def _struct(shape: Shape, dtype: str) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, numpy_dtype(dtype))
