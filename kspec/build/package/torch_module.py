"""A plan in, the text of the package's ``torch.py`` out: its kernels as PyTorch operators.

::

    def gelu_bias(x: ArrayT | complex, bias: ArrayT | complex) -> ArrayT:

A project asks for it with ``torch = true``.  Nothing here needs torch; `kspec.model.operators` says
which arguments an operator has, and `kspec.torch` registers it when the module is imported.
Kernels that `backward` tables declare are for autograd to call, and have no function; other forms
of reductions, ``total_scan``, have one each.  Types are
those of the other modules: a checker need not know torch, and a tensor in is a tensor out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from kspec.build.package import api
from kspec.build.package.docs.lines import SpecLocation
from kspec.build.package.docs.operators import operator_doc
from kspec.build.plan import BuildPlan, Unit
from kspec.dataclass import dataclass
from kspec.model.operators import (
    ARRAY,
    Operator,
    OperatorArgument,
    form_name,
    operator_forms,
    operators,
    refusal,
)
from kspec.spec.models import Spec

FILE_NAME = "torch.py"
_WORD = re.compile(r"\w+")
_ARRAY, _ANY = "ArrayT", "AnyArray"
# Schema's types to Python's.
_TYPES = {
    ARRAY: _ARRAY,
    "Scalar": "complex",
    "SymInt": "int",
    "str": "str",
    "int[1]": "int | Sequence[int]",
    "int[]": "Sequence[int]",
}


@dataclass(frozen=True)
class TorchFunction:
    """A function that calls an operator."""

    name: str
    parameters: tuple[str, ...]
    returns: str
    doc: tuple[str, ...]
    body: tuple[str, ...]


@dataclass(frozen=True)
class TorchContext:
    """Context of ``torch.py.j2``."""

    doc: tuple[str, ...]
    sequences: bool
    types: tuple[str, ...]
    functions: tuple[TorchFunction, ...]


def render_torch_module(plan: BuildPlan) -> str:
    """Return the text of the module."""
    functions = tuple(function for unit in plan.units for function in _functions(unit))
    name = plan.settings.package_name
    doc = (
        f"Kernels of {name} as PyTorch operators, ``torch.ops.{name}``.",
        "",
        "They take tensors on the CPU and on GPUs, and work under `torch.compile`, in",
        "`torch.export`, in CUDA graphs and under autocast.",
    )
    words = {word for one in functions for text in one.parameters for word in _WORD.findall(text)}
    types = tuple(sorted(words & {_ARRAY, _ANY}))
    context = TorchContext(doc, "Sequence" in words, types, functions)
    return api.render_text("torch.py.j2", f"{plan.settings.specs}/*.toml", context)


def _functions(unit: Unit) -> Iterator[TorchFunction]:
    for spec, function in zip(unit.spec_file.specs, api.functions_of(unit), strict=True):
        declaration = spec.declaration()
        if not refusal(declaration) and not getattr(declaration, "forward", ""):
            place = SpecLocation.of(unit.spec_file, spec)
            for form in operator_forms(declaration):
                name = form_name(function.name, form)
                yield _function(spec, name, operators(declaration, form), place)


def _function(
    spec: Spec, name: str, overloads: tuple[Operator, ...], place: SpecLocation
) -> TorchFunction:
    first = overloads[0]
    numbers = {
        argument.name: argument.type
        for one in overloads
        if len(one.arguments) == len(first.arguments)
        for argument in one.arguments
        if not argument.is_array
    }
    keywords = [one for one in first.arguments if one.keyword]
    positional = [one for one in first.arguments if not one.keyword]
    parameters = [_parameter(one, numbers) for one in positional]
    parameters += ["*", *(_parameter(one, {}) for one in keywords)] if keywords else []
    arguments = [*(one.name for one in positional), *(f"{one.name}={one.name}" for one in keywords)]
    call = f"_OPERATORS.{first.packet}({', '.join(arguments)})"
    returns = {0: "None", 1: _ARRAY}.get(first.results, "")
    returns = returns or f"tuple[{', '.join([_ARRAY] * first.results)}]"
    body = (f"_result: {returns} = {call}", "return _result") if first.results else (call,)
    if not first.results:  # a variable that stands once binds nothing
        parameters = [re.sub(rf"\b{_ARRAY}\b", _ANY, text) for text in parameters]
    return TorchFunction(
        name, tuple(parameters), returns, operator_doc(spec, first, numbers, place), body
    )


def _parameter(one: OperatorArgument, numbers: Mapping[str, str]) -> str:
    """Return a parameter of a function; `numbers` are types of parameters that may be numbers."""
    plain = one.type.removesuffix("?")
    type_ = _TYPES.get(plain, plain)
    if one.is_array and one.name in numbers:
        number = numbers[one.name]
        type_ += f" | {_TYPES.get(number, number)}"
    type_ += " | None" if one.type.endswith("?") else ""
    return f"{one.name}: {type_}{f' = {one.default}' if one.default else ''}"
