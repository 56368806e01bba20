"""`backward` of kernels against finite differences: a kernel in, faults of its gradients out.

Each input is moved a little up and down, element by element. The change of the outputs, weighted
with random numbers, must equal the gradients for these numbers as gradients of the outputs. NumPy
is enough for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from kspec.build.properties.dimensions import example_sizes, loop_axes, with_core
from kspec.build.properties.examples import (
    as_numpy,
    on_device,
    random_array,
    window_keywords,
    windows_of,
    with_values,
)
from kspec.model import dtypes
from kspec.model.backward import PREFIX, Backward, with_kept_axes
from kspec.model.declaration import RawDeclaration
from kspec.model.shapes import Shape, summed_axes
from kspec.runtime.driver.device import Device
from kspec.runtime.kernels import KernelCallable
from kspec.spec.base import Example
from kspec.spec.models import ElementwiseSpec, RawSpec, ReductionSpec, Spec

# Dtype of all that is differentiated to the step, and to the error that is allowed for it.
_PRECISIONS = {"float64": (1e-6, 1e-5), "float32": (2.0**-8, 1e-2)}
# Shapes of the first array and of the others, axes, and whether these are kept.
_LAYOUTS = (
    ((3, 4), (3, 4), 1, False),
    ((3, 4), (4,), None, False),
    ((2, 1, 3), (2, 3, 1), (0, -1), True),
)
_ALIKE = (((12,), (12,), 0, False),)
"""For arrays that the kernel indexes by itself."""


def gradient_problem(kernel: KernelCallable[Any], spec: Spec, device: Device) -> str:
    """Return the problem with the gradients of a kernel on a device; empty if there is none.

    Kernels without `backward`, those that are never called with ``float32`` or ``float64``, and
    raw kernels, which write to their arguments, pass.
    """
    backward = kernel.backward
    if backward is None or isinstance(spec, RawSpec):
        return ""
    if isinstance(backward.kernel.declaration, RawDeclaration):
        return ""
    found = (
        (dtype, binding)
        for dtype in _PRECISIONS
        for binding in map(dict, spec.bindings())
        if _is_differentiable(spec, backward, binding, dtype)
    )
    dtype, binding = next(found, ("", {}))
    if not dtype:
        return ""
    alike = any(param.raw for param in spec.params) or bool(spec.boundaries)
    boundaries = spec.boundaries or (None,)
    for boundary in boundaries:
        for seed, layout in enumerate(_ALIKE if alike else _LAYOUTS):
            trial = _Trial(kernel, spec, device, binding, dtype, layout, seed, boundary)
            for problem in trial.problems():
                return f"{problem}, boundary {boundary!r}" if len(boundaries) > 1 else problem
    return ""


def _is_differentiable(
    spec: ElementwiseSpec | ReductionSpec,
    backward: Backward,
    binding: Mapping[str, str],
    dtype: str,
) -> bool:
    """Return whether all that is floating and differentiated has a dtype under a binding."""
    inputs = [param.type for param in spec.inputs if param.name in backward.differentiable]
    outputs = [param.type for param in spec.outputs]
    floating = [one for one in outputs if dtypes.lookup(binding.get(one, one)).kind in "fc"]
    return all(binding.get(one, one) == dtype for one in (*inputs, *floating))


class _Trial:
    """One call of a kernel, and the gradients of a weighted sum of its outputs."""

    def __init__(
        self,
        kernel: KernelCallable[Any],
        spec: ElementwiseSpec | ReductionSpec,
        device: Device,
        binding: Mapping[str, str],
        dtype: str,
        layout: tuple[Any, ...],
        seed: int,
        boundary: str | None,
    ) -> None:
        assert kernel.backward is not None
        self._call: Any = kernel
        self._backward = kernel.backward
        self._spec = spec
        self._device = device
        self._step, self._limit = _PRECISIONS[dtype]
        first, rest, axis, keepdims = layout
        self._axis = axis
        reduces = isinstance(spec, ReductionSpec)
        self._keywords: dict[str, Any] = {"axis": axis, "keepdims": keepdims} if reduces else {}
        shapes: dict[str, Shape] = {}
        if isinstance(spec, ElementwiseSpec):
            self._keywords = window_keywords(spec, spec.example) if spec.example else {}
            self._keywords |= {"boundary": boundary} if boundary else {}
            if spec.windows:
                first, shapes = _windowed_shapes(spec, self._keywords)
                rest = first
            shapes |= _raw_shapes(spec) if spec.windows or spec.samples else {}
        scalars = spec.declaration().scalars
        numbers = spec.example.scalars if spec.example else {}
        span = (spec.example.low, spec.example.high) if spec.example else (-1.0, 1.0)
        self._sizes = example_sizes(spec, spec.example or Example.model_validate({}))
        self._inputs: dict[str, Any] = {}
        for number, param in enumerate(spec.inputs):
            if param.name in scalars:
                self._inputs[param.name] = numbers.get(param.name, 0.5)
                continue
            shape = rest if any(isinstance(x, np.ndarray) for x in self._inputs.values()) else first
            shape = with_core(param, shapes.get(param.name, shape), self._sizes)
            type_ = binding.get(param.type, param.type)
            found = random_array(shape, type_, 100 * seed + number, span)
            values = spec.example.values if spec.example else {}
            found = with_values(param.name, found, values.get(param.name, ""))
            self._inputs[param.name] = found
        self._shape = np.broadcast_shapes(
            *(
                loop_axes(param, self._inputs[param.name].shape)
                for param in spec.inputs
                if param.name not in (*scalars, *shapes) and not param.raw
            ),
            *([first] if shapes else []),
        )
        self._outputs = self._run()
        self._weights = [
            random_array(np.shape(one), str(np.asarray(one).dtype), 7 + number)
            for number, one in enumerate(self._outputs)
        ]

    def problems(self) -> Iterator[str]:
        """Yield the problems, input by input."""
        for name, found in zip(self._backward.differentiable, self._gradients(), strict=True):
            if not isinstance(self._inputs[name], np.ndarray):
                continue
            expected = self._differences(name)
            scale = np.maximum(1, np.abs(expected))
            error = float(np.max(np.abs(found - expected) / scale))
            if not error <= self._limit:
                shape = "x".join(map(str, expected.shape))
                yield (
                    f"the gradient of {name} ({shape}) differs from finite differences: "
                    f"error {error:.2g} is above {self._limit:.2g}"
                )

    def _run(self) -> tuple[Any, ...]:
        placed = [on_device(one, self._device) for one in self._inputs.values()]
        return _as_tuple(self._call(*placed, **self._keywords))

    def _differences(self, name: str) -> Any:
        """Return the change of the weighted sum for each element of an input."""
        array = self._inputs[name]
        found = np.zeros(array.shape)
        for place in np.ndindex(*array.shape):
            middle, sums = array[place], []
            for step in (self._step, -self._step):
                array[place] = middle + step
                moved = float(array[place]) - float(middle)
                total = sum(
                    float(np.sum(np.float64(one) * weight))
                    for one, weight in zip(self._run(), self._weights, strict=True)
                )
                sums.append((total, moved))
            array[place] = middle
            (above, up), (below, down) = sums
            found[place] = (above - below) / (up - down)
        return found

    def _gradients(self) -> Iterator[Any]:
        """Yield the gradients by `backward`, in the shapes of the inputs."""
        names = self._spec.outputs.names
        known = dict(self._inputs)
        for name, output, weight in zip(names, self._outputs, self._weights, strict=True):
            known |= {name: output, f"{PREFIX}{name}": weight}
        if isinstance(self._spec, ReductionSpec):
            known = with_kept_axes(known, names, self._shape, self._axis)
        arguments = [on_device(known[name], self._device) for name in self._backward.takes]
        if self._backward.writes_arrays:
            arguments += [on_device(np.zeros_like(one), self._device) for one in self._like()]
        keywords = self._backward.kernel.declaration.shared_options(self._keywords)
        results = _as_tuple(self._backward.kernel(*arguments, **keywords))
        params = {param.name: param for param in self._spec.inputs}
        for name, result in zip(self._backward.differentiable, results, strict=True):
            if np.shape(result) == np.shape(self._inputs[name]):
                yield np.asarray(result, np.float64)
                continue
            shape = with_core(params[name], self._shape, self._sizes)
            whole = np.broadcast_to(result, shape) if np.ndim(result) else result
            axes, extents = summed_axes(np.shape(whole), np.shape(self._inputs[name]))
            yield np.sum(whole, axis=axes, dtype=np.float64).reshape(extents)

    def _like(self) -> Iterator[Any]:
        """Yield arrays of the shapes and dtypes of the gradients that are given."""
        for param in self._backward.kernel.declaration.outputs:
            front = self._inputs[param.name.removeprefix(PREFIX)]
            shape = with_core(param, self._shape, self._sizes)
            yield front if param.raw else np.empty(shape, front.dtype)


def _windowed_shapes(
    spec: ElementwiseSpec, keywords: Mapping[str, Any]
) -> tuple[Shape, dict[str, Shape]]:
    """Return a shape for the elements, and those of windowed inputs."""
    windows = windows_of(spec, keywords)
    axes = max(len(one.reach) for one in windows.values())
    loop = (2, *range(3, 3 + axes))
    return loop, {name: one.shape_outside(loop) for name, one in windows.items()}


def _raw_shapes(spec: ElementwiseSpec) -> dict[str, Shape]:
    """Return the shapes of arrays that the operation indexes or samples."""
    sampled = {one.param: (5,) * one.axes for one in spec.declaration().samples}
    given = spec.example.shapes if spec.example else {}
    raw = {one.name: given[one.name] for one in spec.inputs if one.raw and one.name in given}
    return {**sampled, **raw}


def _as_tuple(results: Any) -> tuple[Any, ...]:
    return as_numpy(results if isinstance(results, tuple) else (results,))
