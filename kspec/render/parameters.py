"""Parameters in, the C++ out that declares them and reads them: strings for the contexts.

>>> from kspec.model.declaration import ElementwiseDeclaration
>>> from kspec.model.signature import Signature
>>> inputs, outputs = Signature((Param("T", "x"),)), Signature((Param("float32", "y"),))
>>> arguments(ElementwiseDeclaration("sq", inputs, outputs), assigned=["y"])
('const kspec::In<T> _arg_x', 'const kspec::Out<float> _arg_y')

The classes named here are those of ``kspec/include/kspec/operand.cuh``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kspec.model import dtypes
from kspec.model.declaration import GeneratedDeclaration, ReductionDeclaration
from kspec.model.dimensions import dimension
from kspec.model.neighbours.samples import Sample
from kspec.model.neighbours.windows import Window
from kspec.model.signature import Param


def template_params(declaration: GeneratedDeclaration, bound: bool = False) -> str:
    """Return the parameters of the kernel's C++ template: types, layout, ranks of arrays.

    Where type placeholders are bound, they are typedefs: the template's have no names.
    """
    types = type_params(declaration)
    unnamed = ["class"] * len(types)
    params = [*(unnamed if bound else types), "class _Layout", *raw_params(declaration)]
    return ", ".join([*params, *size_params(declaration)])


def type_params(declaration: GeneratedDeclaration) -> list[str]:
    """Return the template parameters that stand for the type placeholders."""
    return [f"class {placeholder}" for placeholder in declaration.placeholders]


def raw_params(declaration: GeneratedDeclaration) -> list[str]:
    """Return the template parameters that are the ranks of arrays indexed by hand."""
    raw = [param.name for param in declaration.params if param.raw]
    views = [f"_raw_{param.name}" for param in _views(declaration)]
    return [f"int _NDIM_{name}" for name in (*raw, *views, *_indexers(declaration))]


def size_params(declaration: GeneratedDeclaration) -> list[str]:
    """Return the template parameters that are integer placeholders."""
    return [f"int {name}" for name in declaration.size_names]


def arguments(declaration: GeneratedDeclaration, assigned: Sequence[str]) -> tuple[str, ...]:
    """Return the kernel's parameters; the old values of `assigned` outputs are not read."""
    inputs, outputs = declaration.inputs, declaration.outputs
    found = (
        *(_input(declaration, param) for param in inputs),
        *(_argument(param, True, param.name in assigned) for param in outputs),
        *(_array(param, param in outputs.params, "_raw_") for param in _views(declaration)),
        *(
            f"const kspec::Array<const char, _NDIM_{name}> {_shape_name(name)}"
            for name in _indexers(declaration)
        ),
        *_adjoint(declaration),
    )
    if not windows_of(declaration):
        return found
    # The code at the edges of arrays may be a function of its own: it takes the parameters where
    # they are, instead of copies that every thread would write first.
    return tuple(re.sub(r"^const\b", "const __grid_constant__", one) for one in found)


def _adjoint(declaration: GeneratedDeclaration) -> tuple[str, ...]:
    window = getattr(declaration, "adjoint", None)
    if window is None:
        return ()
    (output,) = declaration.outputs
    return (f"const {_window_type(output, window)} _adjoint",)


def _input(declaration: GeneratedDeclaration, param: Param) -> str:
    windows, samples = windows_of(declaration), samples_of(declaration)
    if param.name in windows:
        return _window(param, windows[param.name])
    if param.name in samples:
        return _sampled(param, samples[param.name])
    return _argument(param, output=False)


def argument_names(declaration: GeneratedDeclaration) -> tuple[str, ...]:
    """Return the names of those parameters, in their order."""
    return (
        *(argument_name(param) for param in declaration.params),
        *(f"_raw_{param.name}" for param in _views(declaration)),
        *map(_shape_name, _indexers(declaration)),
    )


def indexer(name: str, at: str) -> list[str]:
    """Return the multi-index that a reduction's expression reads as `name`, set to element `at`."""
    made = f"kspec::CIndexer<_NDIM_{name}> {name}({_shape_name(name)}.shape());"
    return [made, f"{name}.set({at});"] if at else [made]


def _indexers(declaration: GeneratedDeclaration) -> tuple[str, ...]:
    return declaration.indexers if isinstance(declaration, ReductionDeclaration) else ()


def _shape_name(indexer: str) -> str:
    return f"_arg_{indexer}"


def _argument(param: Param, output: bool, assigned: bool = True) -> str:
    name = argument_name(param)
    if param.raw:
        return _array(param, output)
    access = "InOut" if output or param.non_const else "In"
    access = "Out" if output and assigned else access
    if param.core:
        return f"const {_core_type(param, access)} {name}"
    return f"const kspec::{access}<{ctype(param)}> {name}"


def _core_type(param: Param, access: str) -> str:
    extents = ", ".join(dimension(one).cpp for one in param.core)
    return f"kspec::Core<kspec::{access}<{ctype(param)}>, {extents}>"


def map_item(param: Param) -> str:
    """Return the parameter of a reduction's map for an input: its element, or its item."""
    if param.core:
        return f"const kspec::SeenOf<{_core_type(param, 'In')}>& {param.name}"
    return item(param, output=False)


def windows_of(declaration: GeneratedDeclaration) -> dict[str, Window]:
    """Return the windows of a kernel by the names of their inputs."""
    return {one.param: one for one in getattr(declaration, "windows", ())}


def _window(param: Param, window: Window) -> str:
    return f"const {_window_type(param, window)} {argument_name(param)}"


def _window_type(param: Param, window: Window) -> str:
    """Return the type of a window: the compiler knows its boundary if it is the first."""
    boundary = f"kspec::{window.boundaries[0].upper()}"
    if len(window.boundaries) > 1:
        boundary = f"kspec::first_boundary<_Layout>({boundary})"
    return f"kspec::Window<{ctype(param)}, {window.axes}, {boundary}>"


def samples_of(declaration: GeneratedDeclaration) -> dict[str, Sample]:
    """Return the samples of a kernel by the names of their raw inputs."""
    return {one.param: one for one in getattr(declaration, "samples", ())}


def _sampled(param: Param, sample: Sample) -> str:
    types = f"{ctype(param)}, _NDIM_{param.name}, {sample.order}"
    return f"const kspec::Sampled<{types}> {argument_name(param)}"


def window_name(param: Param) -> str:
    """Return the name of the neighbours of an input, inside of the loop."""
    return f"_window_{param.name}"


def window_item(param: Param) -> str:
    """Return the parameter of the loop's function that is the neighbours of an input."""
    return f"const auto& {window_name(param)}"


def as_accumulator(param: Param) -> str:
    """Return the C++ type that sums of a parameter's elements have."""
    if param.is_placeholder:
        return f"typename kspec::Accumulator<{param.type}>::type"
    return dtypes.lookup(param.type).accumulator


def _array(param: Param, output: bool, prefix: str = "") -> str:
    # An array that is written is a variable, so that a function can take it as CArray<T, N>&.
    constant = "" if output or param.non_const else "const "
    array = f"kspec::Array<{constant}{ctype(param)}, _NDIM_{prefix}{param.name}>"
    return f"{constant}{array} {prefix}{param.name}"


def _views(declaration: GeneratedDeclaration) -> list[Param]:
    """The parameters that the kernel also gets as arrays."""
    return [param for param in declaration.params if param.name in declaration.raw_views]


def argument_name(param: Param) -> str:
    """Return the name of the kernel's parameter."""
    # A raw argument is the name the user writes; the others become elements under that name.
    return param.name if param.raw else f"_arg_{param.name}"


def ctype(param: Param) -> str:
    """Return the C++ type of a parameter's element."""
    return param.type if param.is_placeholder else dtypes.lookup(param.type).ctype


def item(param: Param, output: bool) -> str:
    """Return the variable that is a parameter's element, under the name that the user writes."""
    written = output or param.non_const
    return f"{ctype(param)}& {param.name}" if written else f"const {ctype(param)} {param.name}"


def loop_item(declaration: GeneratedDeclaration, param: Param) -> str:
    """Return the parameter of the loop's function for an operand: its element, or its window."""
    if param.name in windows_of(declaration):
        return window_item(param)
    if param.core:
        # An item in shared memory comes as a value that says where it is.
        is_shared = getattr(declaration, "threads", 1) > 1
        return f"{'const ' if is_shared else ''}auto& {param.name}"
    return item(param, param in declaration.outputs.params)


def element(param: Param, at: str, output: bool) -> str:
    """Return that variable, set from the slot `at`."""
    if param.core:
        return f"const auto {param.name} = {argument_name(param)}.item({at});"
    return f"{item(param, output)} = {argument_name(param)}.item({at});"


def scalar(param: Param) -> str:
    """Return the variable that holds an input given as a number."""
    return f"const {ctype(param)} {param.name} = _arg_{param.name}.value;"
