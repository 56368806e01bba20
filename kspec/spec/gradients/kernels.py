"""`backward` tables in, specs of the kernels that compute the gradients out.

>>> from kspec.spec.models import ReductionSpec
>>> norm = ReductionSpec(name="norm", inputs="T x", outputs="T y", map="x * x", reduce="a + b",
...                      post_map="y = sqrt(a)", backward={"x": "grad_y * (x / y)"})
>>> spec, faults = gradient_spec(norm)
>>> print(spec.name, "|", spec.inputs, "->", spec.outputs, "|", spec.operation)
norm_backward | T x, T y, T grad_y -> T grad_x | grad_x = grad_y * (x / y);

The result is an elementwise spec like any other: later stages do not know that it was
generated.  `kspec.model.backward` says how such a kernel is called.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from kspec.cpp.fragments import identifiers
from kspec.errors import counted
from kspec.model import dtypes
from kspec.model.backward import COUNT, PREFIX
from kspec.model.declaration import Declaration, GeneratedDeclaration, RawDeclaration
from kspec.model.dimensions import core_names
from kspec.model.shapes import kept_shape, reduced_count
from kspec.model.signature import Param, Signature
from kspec.spec.base import Example
from kspec.spec.building import check_spec
from kspec.spec.faults import Fault
from kspec.spec.gradients.rules import ADJOINT, adjoints_of
from kspec.spec.models import ElementwiseSpec, ReductionSpec, Spec

_SUFFIX = "_backward"


def gradient_spec(
    spec: ElementwiseSpec | ReductionSpec,
) -> tuple[ElementwiseSpec | None, tuple[Fault, ...]]:
    """Return the kernel that a `backward` table declares, or what is wrong with it.

    Faults are located in `spec`.
    """
    table = spec.backward
    assert isinstance(table, Mapping)
    adjoints = adjoints_of(table)
    if isinstance(spec, ElementwiseSpec) and adjoints:
        return _adjoint_spec(spec, adjoints[0])
    inputs, outputs = _parameters(spec, table)
    fields: dict[str, object] = {
        "name": spec.name + _SUFFIX,
        "doc": _doc(spec, table),
        "inputs": Signature(inputs),
        "outputs": Signature(outputs),
        "operation": "\n".join(assignment(name, text) for name, text in table.items()),
        "preamble": spec.preamble,
        "options": spec.options,
        "types": _types(spec, (*inputs, *outputs), outputs),
    }
    if spec.example is not None:
        fields["example"] = _example(spec, spec.example, inputs)
    if isinstance(spec, ElementwiseSpec) and not any(param.raw for param in inputs):
        fields["layouts"] = spec.layouts
    found, faults = check_spec(ElementwiseSpec, fields)
    if found is not None:
        found.declare_forward(spec.name)
    return found, tuple(
        Fault(
            ("backward",), f"of the kernel {fields['name']!r}, which this declares: {one.message}"
        )
        for one in faults
    )


def _adjoint_spec(
    spec: ElementwiseSpec, name: str
) -> tuple[ElementwiseSpec | None, tuple[Fault, ...]]:
    """Return the kernel that gathers the gradient of a windowed input."""
    words = set(identifiers(spec.operation, *spec.macro_texts))
    params = {param.name: param for param in spec.inputs}
    grads = [Param(param.type, f"{PREFIX}{param.name}") for param in spec.outputs]
    inputs = [param for param in spec.inputs if param.name in words and param.name != name]
    result = Param(params[name].type, f"{PREFIX}{name}")
    signature = (*inputs, *grads, result)
    fields: dict[str, object] = {
        "name": spec.name + _SUFFIX,
        "doc": _doc(spec, {name: ADJOINT}),
        "inputs": Signature((*inputs, *grads)),
        "outputs": Signature((result,)),
        "operation": spec.operation,
        "preamble": spec.preamble,
        "options": spec.options,
        "types": _types(spec, signature, (result,)),
        "windows": {
            one: dict(table) for one, table in spec.windows.items() if one != name and one in words
        },
        "sizes": spec.sizes,
        "samples": {
            one: table.model_dump(exclude_unset=True) for one, table in spec.samples.items()
        },
    }
    found, faults = check_spec(ElementwiseSpec, fields, is_written=False)
    if found is not None:
        found.declare_forward(spec.name)
        found.declare_adjoint(params[name], spec.window_of(name), spec.outputs)
    return found, tuple(Fault(("backward",), one.message) for one in faults)


def kernel_faults(spec: Spec, other: Declaration) -> Iterator[Fault]:
    """Check that a kernel can compute the gradients of another.

    Parameters
    ----------
    spec : Spec
        The kernel in front, whose `backward` names the other.
    other : Declaration
        The kernel that is named.
    """
    inputs, outputs = spec.declaration().sides
    takes, gives = other.sides
    known = [*inputs, *outputs, *(f"{PREFIX}{name}" for name in outputs)]
    known += [COUNT] if isinstance(spec, ReductionSpec) else []
    wanted = [f"{PREFIX}{name}" for name in inputs]
    where, name = ("backward",), other.name
    for one in takes:
        if one not in known:
            message = f"{name!r} has a parameter {one!r}, but gradients are made of"
            yield Fault(where, f"{message} {', '.join(known)}")
    for one in gives:
        if one not in wanted:
            message = f"{name!r} has an output {one!r}, but gradients are called"
            yield Fault(where, f"{message} {', '.join(wanted)}")
    if not gives:
        yield Fault(where, f"{name!r} has no output, so it gives no gradient")
    if isinstance(other, RawDeclaration):
        return
    decided = {param.type for param in other.inputs if param.name not in other.scalars}
    for param in other.outputs:
        if param.name in wanted and param.is_placeholder and param.type not in decided:
            message = f"no input of {name!r} decides the type {param.type} of {param.name}"
            yield Fault(where, f"{message}; let it take {param.name.removeprefix(PREFIX)}")
    yield from _core_faults(spec, other)


def _core_faults(spec: Spec, other: GeneratedDeclaration) -> Iterator[Fault]:
    """Check that what a kernel and that of its gradients share has the same core dimensions."""
    declaration = spec.declaration()
    if isinstance(declaration, RawDeclaration):
        return
    front = {param.name: param for param in declaration.params}
    for param in other.params:
        name = param.name if param.name in front else param.name.removeprefix(PREFIX)
        own = front.get(name)
        if own is None or param.raw or own.raw:
            continue
        if len(param.core) != len(own.core):
            message = (
                f"parameter {param} of {other.name!r} has "
                f"{counted(len(param.core), 'core dimension')}, and {own} of {spec.name!r} has "
                f"{len(own.core)}; declare as many"
            )
            yield Fault(("backward",), message)
    given = set(other.call_options).difference(declaration.call_options)
    for param in other.outputs:
        for size in core_names([param]):
            if size in given:
                message = f"no input of {other.name!r} decides the size {size} of {param}"
                yield Fault(
                    ("backward",), f"{message}; let it take {param.name.removeprefix(PREFIX)}"
                )


def _parameters(
    spec: ElementwiseSpec | ReductionSpec, table: Mapping[str, str]
) -> tuple[tuple[Param, ...], tuple[Param, ...]]:
    """Return the inputs of the expressions, and their outputs."""
    given = {param.name: param for param in spec.inputs}
    results = tuple(Param(given[name].type, f"{PREFIX}{name}") for name in table)
    grads = tuple(Param(param.type, f"{PREFIX}{param.name}") for param in spec.outputs)
    counted = isinstance(spec, ReductionSpec) and COUNT not in spec.params.names
    known = (*spec.params, *grads, *([Param("int64", COUNT)] if counted else []))
    words = set(identifiers(*table.values(), *spec.macro_texts))
    words |= {word.removeprefix("_raw_") for word in words if word.startswith("_raw_")}
    needed = {param.name for param in known if param.name in words}
    # The dtype of a gradient is that of its input, which has to be there where nothing else tells.
    decided = {param.type for param in known if param.name in needed}
    needed |= {name for name in table if given[name].is_placeholder} & {
        name for name in table if given[name].type not in decided
    }
    return tuple(param for param in known if param.name in needed), results


def assignment(name: str, text: str) -> str:
    """Return the statement of one expression, which a comment may end."""
    end = "\n;" if "//" in text.rpartition("\n")[2] else ";"
    return f"{PREFIX}{name} = {text}{end}"


def _doc(spec: ElementwiseSpec | ReductionSpec, table: Mapping[str, str]) -> str:
    names = [f"``{name}``" for name in table]
    listed = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    grads = [f"``{PREFIX}{name}``" for name in spec.outputs.names]
    return (
        f"{'Gradients' if len(names) > 1 else 'Gradient'} of ``{spec.name}`` with respect to "
        f"{listed}.\n\nComputed from {' and '.join(grads)}, the "
        f"{'gradients of its outputs' if len(grads) > 1 else 'gradient of its output'}."
    )


def _example(
    spec: ElementwiseSpec | ReductionSpec, example: Example, inputs: tuple[Param, ...]
) -> dict[str, object]:
    """Return arguments that fit those of the example of the kernel in front."""
    arrays = [example.shapes.get(param.name, ()) for param in spec.inputs if not param.raw]
    shape = tuple(
        max(extents)
        for extents in itertools.zip_longest(*(one[::-1] for one in arrays), fillvalue=1)
    )[::-1]
    result = kept_shape(shape, example.axis) if isinstance(spec, ReductionSpec) else shape
    known = {name: example.shapes.get(name, result) for name in spec.outputs.names}
    known |= {f"{PREFIX}{name}": one for name, one in known.items()} | dict(example.shapes)
    scalars = {COUNT: reduced_count(shape, example.axis), **example.scalars}
    names = [param.name for param in inputs]
    bound = Signature(inputs).placeholders
    return {
        "shapes": {name: known[name] for name in names if name in known},
        "scalars": {name: scalars[name] for name in names if name in scalars},
        "types": {letter: one for letter, one in example.types.items() if letter in bound},
        "low": example.low,
        "high": example.high,
    }


def _types(
    spec: ElementwiseSpec | ReductionSpec, params: tuple[Param, ...], results: tuple[Param, ...]
) -> object:
    """Return the dtypes of the kernel in front, where what is differentiated is floating."""
    placeholders = Signature(params).placeholders
    outputs = {param.type for param in spec.outputs}
    floating = {param.type for param in results} | outputs.intersection(
        param.type for param in params if param.name.startswith(PREFIX)
    )

    def fits(letter: str, dtype: str) -> bool:
        return letter not in floating or dtypes.lookup(dtype).kind == "f"

    if isinstance(spec.types, Mapping):
        lists = {
            letter: tuple(one for one in names if fits(letter, one))
            for letter, names in spec.types.items()
            if letter in placeholders
        }
        return lists if all(lists.values()) else {}
    rows = [
        {letter: row[letter] for letter in placeholders}
        for row in spec.types
        if all(fits(letter, dtype) for letter, dtype in row.items())
    ]
    return [row for k, row in enumerate(rows) if row not in rows[:k]]
