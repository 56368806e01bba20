"""A kernel as an operator of a library with a dispatcher: which arguments, and what they may be.

>>> from kspec.model.signature import Param, Signature
>>> sq = ElementwiseDeclaration(
...     "sq", Signature((Param("T", "x"), Param("T", "y"))), Signature((Param("T", "z"),))
... )
>>> for one in operators(sq):
...     print(one.schema)
sq(Tensor x, Tensor y) -> Tensor
sq.y(Tensor x, Scalar y) -> Tensor
sq.x(Scalar x, Tensor y) -> Tensor

Schemas are in torch's language.  An input that may be an array or a number has an overload for
either, named by the inputs that are numbers (by their positions, ``in0_in1``, where names could be
taken for others).  Operators of elementwise and reduction kernels
return new arrays; what a kernel writes to is annotated, as ``Tensor(a!) y``.  Each other form of a
reduction is an operator of its own, ``total_scan`` beside ``total``.

`kspec.torch` registers these, `kspec.build.package.torch_module` writes functions that call them.
"""

from __future__ import annotations

import ast
import functools
import itertools
import keyword
from collections.abc import Collection, Sequence
from typing import Any

from kspec.dataclass import dataclass
from kspec.model import dtypes
from kspec.model.backward import COUNT
from kspec.model.declaration import (
    Declaration,
    ElementwiseDeclaration,
    GeneratedDeclaration,
    RawDeclaration,
    ReductionDeclaration,
)
from kspec.model.forms.kinds import REDUCE, form_fault
from kspec.model.forms.options import FORM_OPTIONS, OptionKind, indices_of
from kspec.model.signature import CParam, Param

ARRAY = "Tensor"
# Kind of a dtype to the schema's type of a number.
_NUMBERS = {"f": "float", "i": "SymInt", "u": "SymInt", "b": "bool", "c": "complex"}
# Inputs for each of which arrays and numbers are told apart, in every combination.
_COMBINED = 3
# The argument that says how many elements there are.
_SIZE = "size"
# What torch's object of an operator has beside overloads.
_TAKEN = frozenset({"default", "op", "op_overloads", "overloads"})
# What torch's namespaces have beside operators.
_OF_NAMESPACES = frozenset({"_dir", "name"})


@dataclass(frozen=True)
class OperatorArgument:
    """One argument of an operator.

    Attributes
    ----------
    name : str
        That of the parameter.
    type : str
        Schema's type: ``Tensor``, ``float``, ``SymInt?``, ...
    written : bool
        Whether the kernel writes to it.
    default : str
        As the schema has it; empty if it must be given.
    keyword : bool
        Whether it is given by name only.
    """

    name: str
    type: str
    written: bool = False
    default: str = ""
    keyword: bool = False

    @property
    def is_array(self) -> bool:
        """Whether it is an array."""
        return self.type == ARRAY


@dataclass(frozen=True)
class Operator:
    """One overload of an operator.

    Attributes
    ----------
    declaration : Declaration
        The kernel.
    arguments : tuple of Argument
        In order; those of the kernel's parameters come first.
    results : int
        How many new arrays are returned.
    overload : str
        Name of the overload; empty for the first.
    form : str
        Form of a reduction (`kspec.model.forms`) that it calls.
    """

    declaration: Declaration
    arguments: tuple[OperatorArgument, ...]
    results: int
    overload: str = ""
    form: str = REDUCE

    @property
    def packet(self) -> str:
        """Name that its overloads share: ``total``, or ``total_scan``."""
        return form_name(self.declaration.name, self.form)

    @property
    def name(self) -> str:
        """Name of the operator and its overload: ``sq.y``."""
        return ".".join(filter(None, (self.packet, self.overload)))

    @functools.cached_property
    def defaults(self) -> dict[str, Any]:
        """Values of the arguments that calls may leave out."""
        return {one.name: ast.literal_eval(one.default) for one in self.arguments if one.default}

    @property
    def form_arguments(self) -> tuple[str, ...]:
        """Names of the arguments that a reduction or another form has beside its parameters."""
        if not isinstance(self.declaration, ReductionDeclaration):
            return ()
        return tuple(one.name for one in _FORM_ARGUMENTS[self.form])

    @property
    def indices(self) -> tuple[str, ...]:
        """Names of the arrays of integers that a form takes beside the inputs."""
        return indices_of(self.form)

    @property
    def parameters(self) -> tuple[OperatorArgument, ...]:
        """The arguments that are parameters of the kernel."""
        params = self.declaration.params or ()
        names = [param.name for param in params]
        return tuple(one for one in self.arguments if one.name in names)

    @property
    def sized(self) -> bool:
        """Whether it is told the number of elements, by its last positional argument."""
        declaration = self.declaration
        if not isinstance(declaration, ElementwiseDeclaration):
            return False
        names = [one.name for one in self.arguments]
        return _SIZE in names and _SIZE not in declaration.params.names

    @property
    def options(self) -> tuple[str, ...]:
        """Keyword arguments of calls that bind windows: the boundary, and integer placeholders."""
        if not isinstance(self.declaration, ElementwiseDeclaration):
            return ()
        return tuple(one.name for one in self.arguments if one.keyword)

    @property
    def writes(self) -> bool:
        """Whether it changes arguments."""
        return any(one.written for one in self.arguments)

    @property
    def schema(self) -> str:
        """The schema, in torch's language."""
        letters = iter("abcdefghijklmnopqrstuvwxyz")
        texts: list[str] = []
        for one in self.arguments:
            if one.keyword and "*" not in texts:
                texts.append("*")
            type_ = f"{ARRAY}({next(letters)}!)" if one.written else one.type
            texts.append(f"{type_} {one.name}{f'={one.default}' if one.default else ''}")
        returned = ARRAY if self.results == 1 else f"({', '.join([ARRAY] * self.results)})"
        return f"{self.name}({', '.join(texts)}) -> {returned}"


# Types of a form's arguments in schemas.
_FORM_TYPES = {
    OptionKind.AXES: "int[1]?",
    OptionKind.AXIS: "int",
    OptionKind.BOUNDARY: "str",
    OptionKind.FLAG: "bool",
    OptionKind.INDICES: ARRAY,
    OptionKind.NUMBER: "int",
    OptionKind.TRUTH: "bool",
    OptionKind.NUMBERS: "int[1]",
}
# Arguments of a reduction's operators behind those of its parameters, by form.
_FORM_ARGUMENTS = {
    form: tuple(
        OperatorArgument(one.name, _FORM_TYPES[one.kind], default=one.default_text)
        for one in options
    )
    for form, options in FORM_OPTIONS.items()
}


def form_name(kernel: str, form: str) -> str:
    """Return the name of the operator of a kernel's form."""
    return kernel if form == REDUCE else f"{kernel}_{form}"


def operator_forms(declaration: Declaration, listed: bool = True) -> tuple[str, ...]:
    """Return the forms of which a kernel has operators.

    Parameters
    ----------
    declaration : Declaration
        The kernel.
    listed : bool, default True
        Only those that its spec lists. Otherwise all that it has, without those for which a
        parameter has the name of an argument.
    """
    if not isinstance(declaration, ReductionDeclaration):
        return (REDUCE,)
    if listed:
        own = () if declaration.forms_only else (REDUCE,)
        return (*own, *declaration.forms)
    taken = set(declaration.params.names)
    others = () if form_fault(declaration) else _FORM_ARGUMENTS
    free = (
        form
        for form in others
        if form != REDUCE and taken.isdisjoint(one.name for one in _FORM_ARGUMENTS[form])
    )
    return (REDUCE, *free)


def operators(declaration: Declaration, form: str = REDUCE) -> tuple[Operator, ...]:
    """Return the overloads of a kernel's operator, the one with most arrays first.

    Those of a reduction's form, if there are several (`operator_forms`).

    Gradients that expressions declare have one; `gradient_numbers` says which others are called.
    """
    if isinstance(declaration, RawDeclaration):
        return (_raw_operator(declaration),)
    names = () if getattr(declaration, "forward", "") else _either(declaration)
    most = len(names) if len(names) <= _COMBINED else 0
    chosen = [some for k in range(most + 1) for some in itertools.combinations(names, k)]
    chosen.sort(key=lambda some: (len(some), [-names.index(name) for name in some]))
    found = (operator(declaration, some, form) for some in chosen)
    return tuple(one for one in found if _is_decided(one))


def operator(
    declaration: GeneratedDeclaration, numbers: Collection[str], form: str = REDUCE
) -> Operator:
    """Return the overload in which some of the inputs are numbers."""
    elementwise = isinstance(declaration, ElementwiseDeclaration)
    arguments = [
        OperatorArgument(param.name, _number(param.type))
        if param.name in numbers or param.name in declaration.scalars
        else OperatorArgument(param.name, ARRAY, param.non_const)
        for param in declaration.inputs
    ]
    written = outputs_are_given(declaration)
    if written:
        arguments += [OperatorArgument(param.name, ARRAY, True) for param in declaration.outputs]
    plain = {param.name for param in declaration.params if not param.raw}
    arrays = [one.name for one in arguments if one.is_array]
    if elementwise and arrays and plain.isdisjoint(arrays):
        arguments.append(OperatorArgument(_SIZE, "SymInt"))
    if isinstance(declaration, ElementwiseDeclaration):
        arguments += _window_arguments(declaration)
    else:
        arguments += _FORM_ARGUMENTS[form]
    overload = _overload(declaration.inputs.names, numbers)
    results = 0 if written else len(declaration.outputs)
    return Operator(declaration, tuple(arguments), results, overload, form)


def _window_arguments(declaration: ElementwiseDeclaration) -> list[OperatorArgument]:
    """Return the keyword arguments of a kernel with windows or integer placeholders."""
    sizes = dict(declaration.sizes)
    arguments = []
    for name in declaration.call_options:
        type_, default = "str?", "None"
        if name in sizes:
            known = sizes[name]
            type_, default = "int", str(known[0]) if len(known) == 1 else ""
        arguments.append(OperatorArgument(name, type_, default=default, keyword=True))
    return arguments


def _overload(names: Sequence[str], numbers: Collection[str]) -> str:
    """Return the name of the overload in which some inputs are numbers.

    Joined names tell which they are unless one begins like another: x and y, or x_y.
    """
    plain = not any(
        name in _TAKEN or any(name.startswith(f"{one}_") for one in names) for name in names
    )
    return "_".join(
        name if plain else f"in{position}" for position, name in enumerate(names) if name in numbers
    )


def gradient_numbers(front: Operator, declaration: GeneratedDeclaration) -> tuple[str, ...]:
    """Return the inputs that are numbers of a kernel that computes an operator's gradients."""
    numbers = {one.name for one in front.parameters if not one.is_array}
    if isinstance(front.declaration, ReductionDeclaration):
        numbers |= {COUNT} - set(front.declaration.params.names)
    return tuple(name for name in declaration.inputs.names if name in numbers)


def outputs_are_given(declaration: GeneratedDeclaration) -> bool:
    """Return whether an operator writes to arrays of the caller's.

    Nothing else tells what its outputs are, or the kernel does not return them.
    """
    decided = {param.type for param in declaration.inputs if param.name not in declaration.scalars}
    return getattr(declaration, "no_return", False) or any(
        param.raw or (param.is_placeholder and param.type not in decided)
        for param in declaration.outputs
    )


def refusal(declaration: Declaration) -> str:
    """Return why a kernel cannot be an operator of such a library; empty if it can."""
    named = name_refusal(declaration)
    if named:
        return named
    if isinstance(declaration, RawDeclaration):
        if declaration.params is None:
            return "its parameters are not declared"
        bad = [one for one in declaration.params if not one.is_placeholder and not _row(one.type)]
        return _not_of_tensors(bad)
    return _not_of_tensors(
        [
            one
            for one in declaration.params
            if not one.is_placeholder and dtypes.lookup(one.type).kind not in _NUMBERS
        ]
    )


def name_refusal(declaration: Declaration) -> str:
    """Return the reason why an operator cannot have the names of a kernel; else an empty string."""
    if declaration.name in _OF_NAMESPACES:
        return f"torch.ops has another attribute named {declaration.name}; rename the kernel"
    params = [(f"parameter {one.name}", one.name) for one in declaration.params or ()]
    for what, name in ((f"kernel {declaration.name}", declaration.name), *params):
        if keyword.iskeyword(name):
            return f"{what} has a Python keyword as its name; rename it"
    for what, name in params:
        if name in _options(declaration):
            return f"{what} has the name of a keyword of the generated operator; rename it"
    return ""


def _options(declaration: Declaration) -> tuple[str, ...]:
    """Return the arguments of an operator that are not parameters of the kernel."""
    if isinstance(declaration, RawDeclaration):
        return ("grid", "block", "shared_mem")
    if isinstance(declaration, ReductionDeclaration):
        return tuple(one.name for one in _FORM_ARGUMENTS[REDUCE])
    return (_SIZE,) if all(param.raw for param in declaration.inputs) else ()


def _not_of_tensors(params: Sequence[Param | CParam]) -> str:
    return f"{params[0].name} is {params[0].type}, and tensors have no such dtype" if params else ""


def _raw_operator(declaration: RawDeclaration) -> Operator:
    rules = declaration.rules
    defaults = dict(rules.defaults)
    params = [one for one in declaration.params or () if one.name not in rules.returned]
    arguments = [_raw_argument(param) for param in params if param.name not in defaults]
    for param in params:
        if param.name in defaults:
            one = _raw_argument(param)
            arguments.append(
                OperatorArgument(one.name, f"{one.type}?", default="None", keyword=True)
            )
    implied = declaration.implied
    for name in declaration.values:
        type_, default = ("int?", "None") if name in defaults else ("int", "")
        default = str(implied[name]) if name in implied else default
        arguments.append(OperatorArgument(name, type_, default=default, keyword=True))
    sizes = ("int[]?", "None") if rules.complete else ("int[]", "")
    for name in ("grid", "block"):
        if name not in rules.fixed:
            arguments.append(OperatorArgument(name, sizes[0], default=sizes[1], keyword=True))
    if "shared_mem" not in rules.fixed:
        arguments.append(OperatorArgument("shared_mem", "int?", default="None", keyword=True))
    return Operator(declaration, tuple(arguments), len(rules.returns))


def _raw_argument(param: CParam) -> OperatorArgument:
    if param.pointer:
        return OperatorArgument(param.name, ARRAY, not param.const)
    row = _row(param.type)
    return OperatorArgument(param.name, "Scalar" if row is None else _NUMBERS[row.kind])


def _row(ctype: str) -> dtypes.DType | None:
    row = dtypes.from_ctype(ctype)
    return row if row is not None and row.kind in _NUMBERS else None


def _number(type_: str) -> str:
    return "Scalar" if len(type_) == 1 else _NUMBERS[dtypes.lookup(type_).kind]


def _either(declaration: GeneratedDeclaration) -> tuple[str, ...]:
    """Return the inputs that may be arrays or numbers."""
    return tuple(
        param.name
        for param in declaration.inputs
        if param.name not in declaration.scalars and not declaration.needs_array(param)
    )


def _is_decided(one: Operator) -> bool:
    """Return whether the arrays of an overload tell shape and types."""
    declaration = one.declaration
    assert not isinstance(declaration, RawDeclaration)
    arrays = {argument.name for argument in one.arguments if argument.is_array}
    bound = {param.type for param in declaration.params if param.name in arrays}
    plain = [param for param in declaration.params if param.name in arrays and not param.raw]
    return (bool(plain) or one.sized) and set(declaration.placeholders) <= bound
