"""Groups in, kernels out: each a spec, with its reads and writes.

An elementwise group becomes an `ElementwiseSpec`, a reduction group a `ReductionSpec`. Computations
of an element become statements of `kspec.ir`, which are checked and printed as CUDA C++.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from kspec.cpp.names import name_problem
from kspec.dataclass import dataclass
from kspec.fusion.accumulators import ACCUMULATORS, Accumulator
from kspec.fusion.graph import (
    Constant,
    Count,
    ElementNumber,
    Elementwise,
    Input,
    Node,
    Reduce,
    Scalar,
    Scan,
    View,
    Whole,
    is_number,
)
from kspec.fusion.partition import (
    ElementwiseGroup,
    FusionGroup,
    Output,
    Partition,
    ReductionGroup,
    reachable,
)
from kspec.fusion.types import is_narrow, rounded
from kspec.ir.builtins import BUILTINS
from kspec.ir.check import check
from kspec.ir.emit import emit, emit_expression
from kspec.ir.nodes import (
    Assign,
    BuiltinCall,
    Cast,
    Const,
    Element,
    Expression,
    FunctionCall,
    Let,
    Name,
    Statement,
)
from kspec.ir.types import BufferType
from kspec.model import dtypes
from kspec.spec.building import build_spec
from kspec.spec.models import ElementwiseSpec, ReductionSpec

_WORD = re.compile(r"[A-Za-z_]\w*")
# What generated text means by itself, and would not find below a parameter of that name.
_TAKEN = frozenset(
    {
        "i",
        "n",
        "a",
        "b",
        "index",
        "join",
        "map_element",
        "Accumulators",
        "Candidate",
        "Moments",
        "warpSize",
    }
    | {word for one in BUILTINS.values() for word in _WORD.findall(f"{one.text} {one.plain}")}
)
# Outputs are named so, and placeholders of types, constants of templates and macros of headers.
_GENERAL = re.compile(r"out\d+|[A-Z][A-Z0-9_]*")
_TEMPORARY = re.compile(r"[tr]\d+|group\d+|total\d*")


@dataclass(frozen=True)
class LoweredKernel:
    """A kernel of a fused function.

    Attributes
    ----------
    spec : ElementwiseSpec or ReductionSpec
        What it computes.
    reads : tuple of Node
        Its inputs: what is in memory, and numbers.
    writes : tuple of Output
        Its outputs.
    axes : tuple of int or None
        Axes that it reduces; None for functions of elements.
    body : tuple of Statement
        What is computed of an element.
    is_scan : bool
        Whether it has an output for each element.
    """

    spec: ElementwiseSpec | ReductionSpec
    reads: tuple[Node, ...]
    writes: tuple[Output, ...]
    axes: tuple[int, ...] | None
    body: tuple[Statement, ...]
    is_scan: bool = False


def lower(
    plan: Partition, name: str, names: Sequence[str], options: tuple[str, ...] = ()
) -> tuple[LoweredKernel, ...]:
    """Return the kernels of a partition.

    Parameters
    ----------
    plan : Partition
        The groups.
    name : str
        Of the function.
    names : sequence of str
        Of its arguments.
    options : tuple of str, optional
        Compiler options of the kernels.
    """
    kernels = []
    for number, group in enumerate(plan.groups):
        own = name if len(plan.groups) == 1 else f"{name}_{number}"
        lowering = _Lowering(plan, group, own, names, options)
        kernels.append(
            lowering.elements() if isinstance(group, ElementwiseGroup) else lowering.reduction()
        )
    return tuple(kernels)


class NameAllocator:
    """Identifiers of a kernel: each once, none that hides what its text needs.

    Parameters
    ----------
    own : re.Pattern
        The names that its text gives by itself.
    """

    def __init__(self, own: re.Pattern[str]) -> None:
        self._own = own
        self._used: set[str] = set()

    def take(self, wanted: str, instead: str) -> str:
        """Return a name that is like the wanted one, or like another if that is impossible."""
        bad = (
            not _WORD.fullmatch(wanted)
            or wanted.startswith("_")
            or wanted in _TAKEN
            or _GENERAL.fullmatch(wanted)
            or self._own.fullmatch(wanted)
            or name_problem(wanted)
        )
        base = instead if bad else wanted
        name, number = base, 1
        while name in self._used:
            name, number = f"{base}_{number}", number + 1
        self._used.add(name)
        return name


class BodyBuilder:
    """Statements for values, each computed once.

    Parameters
    ----------
    given : mapping of Node to Expression
        What is there already.
    prefix : str
        Of the variables' names.

    Attributes
    ----------
    statements : list of Statement
        So far.
    """

    def __init__(self, given: Mapping[Node, Expression], prefix: str = "t") -> None:
        self._known = dict(given)
        self._prefix = prefix
        self.statements: list[Statement] = []

    @property
    def known(self) -> Mapping[Node, Expression]:
        """Expressions of all that is computed, or was given."""
        return self._known

    @property
    def definitions(self) -> list[str]:
        """C++ that has to be in front of the statements."""
        return definitions(self._known)

    def expression(self, value: Node) -> Expression:
        """Return an expression of a value; what it needs is in the statements in front."""
        for one in reachable([value], self._known, Elementwise):
            self._known[one] = self._make(one)
        return self._known[value]

    def define(self, value: Node, made: Expression) -> None:
        """Have a value be computed by an expression, which becomes a variable."""
        self._known[value] = self.let(made)

    def let(self, value: Expression) -> Expression:
        """Return a name for an expression that is none yet."""
        if isinstance(value, Name | Const):
            return value
        name = f"{self._prefix}{sum(isinstance(one, Let) for one in self.statements)}"
        self.statements.append(Let(name, value))
        return Name(name, value.type)

    def assign(self, target: Name, value: Expression) -> None:
        """Store an expression."""
        self.statements.append(Assign(target, value))

    def _make(self, value: Node) -> Expression:
        if isinstance(value, Constant):
            number = value.value
            return Const(
                rounded(number, value.dtype) if is_narrow(value.dtype) else number, value.dtype
            )
        assert isinstance(value, Elementwise)
        inputs = tuple(self._known[one] for one in value.operands)
        if value.function == "filled":
            return inputs[0]
        if value.function == "rounded" and inputs[0].type == value.dtype:
            return inputs[0]
        if value.function in ("cast", "rounded"):
            return self.let(Cast(inputs[0], value.dtype))
        if value.function == "element":
            return self.let(Element(inputs[0], inputs[1:], value.dtype))
        if value.definition:
            return self.let(FunctionCall(value.function, inputs, value.dtype))
        return self.let(BuiltinCall(value.function, inputs, value.dtype))


def definitions(values: Iterable[Node]) -> list[str]:
    """Return the C++ that has to be in front of functions of elements, each once."""
    functions = (one for one in values if isinstance(one, Elementwise))
    return list(dict.fromkeys(one.definition for one in functions if one.definition))


class _Lowering:
    def __init__(
        self,
        plan: Partition,
        group: FusionGroup,
        name: str,
        names: Sequence[str],
        options: tuple[str, ...],
    ) -> None:
        self._group = group
        self._name = name
        self._options = options
        self._argument_names = names
        self._names = NameAllocator(_TEMPORARY)
        reads = list(plan.reads(group))
        self._reads = tuple(one for one in reads if not isinstance(one, Constant | ElementNumber))
        self._params = {one: self._param(one) for one in self._reads}
        self._numbers = [one for one in reads if isinstance(one, ElementNumber)]
        # A group that is called has an array among its inputs, the first of which decides devices.
        self._reads = tuple(sorted(self._reads, key=lambda one: isinstance(one, Scalar)))

    def elements(self) -> LoweredKernel:
        """Return the kernel of functions of elements."""
        assert isinstance(self._group, ElementwiseGroup)
        writes = self._group.outputs
        before = self._before_elements(writes)
        body = BodyBuilder(before.known)
        number = Name("i", "int64")
        for one in self._numbers:  # `i` is a ptrdiff_t, which may be a long
            body.define(one, Cast(number, one.dtype))
        targets = [Name(f"out{number}", one.value.dtype) for number, one in enumerate(writes)]
        values = [body.expression(one.value) for one in writes]
        for target, value in zip(targets, values, strict=True):
            body.assign(target, value)
        names = {one.name: one.type for one in (*self._params.values(), number, *targets)}
        statements = (*before.statements, *body.statements)
        check(statements, names)
        spec = build_spec(
            ElementwiseSpec,
            name=self._name,
            options=self._options,
            inputs=self._inputs(),
            outputs=", ".join(f"{one.type} {one.name}" for one in targets),
            preamble="\n".join(body.definitions),
            loop_prep=emit(before.statements),
            operation=emit(body.statements),
        )
        return LoweredKernel(spec, self._reads, writes, None, statements)

    def _before_elements(self, writes: Sequence[Output]) -> BodyBuilder:
        """Return functions of numbers alone, which are computed once in each thread.

        Compilers move operators out of loops by themselves, but not a power of two doubles, which
        would take longer for each element than to read it.
        """
        body = BodyBuilder(self._params, "r")
        for one in writes:
            for value in reachable([one.value], self._params, Elementwise):
                if is_number(value) and _is_called(value):
                    body.expression(value)
        return body

    def reduction(self) -> LoweredKernel:
        """Return the kernel of a reduction group."""
        assert isinstance(self._group, ReductionGroup)
        group = self._group
        accs = [ACCUMULATORS[one.function](one) for one in group.reductions]
        body = BodyBuilder(self._params)
        elements = [body.expression(one.input) for one in group.reductions]
        mapped = [
            acc.element(emit_expression(_let_cast(body, value, acc)))
            for acc, value in zip(accs, elements, strict=True)
        ]
        check(body.statements, {one.name: one.type for one in self._params.values()})
        several = len(accs) > 1
        members = [f"acc{number}" for number in range(len(accs))]
        post, targets, end = self._end(group, accs, members if several else [""])
        needed = [*body.definitions, *end.definitions, *(acc.preamble for acc in accs)]
        preamble = [text for text in dict.fromkeys(needed) if text]
        acc_type = accs[0].ctype
        if several:
            acc_type = "Accumulators"
            fields = "".join(
                f"  {acc.ctype} {name};\n" for acc, name in zip(accs, members, strict=True)
            )
            preamble.append(f"struct Accumulators {{\n{fields}}};")
        joined = [
            acc.join(*(f"{side}.{name}" if several else side for side in "ab"))
            for acc, name in zip(accs, members, strict=True)
        ]
        needs_index = any(acc.needs_index for acc in accs)
        read = {word for text in (*mapped, emit(body.statements)) for word in _WORD.findall(text)}
        inputs = [one for one in self._params.values() if one.name in read]
        value = _braced(acc_type, mapped) if several else mapped[0]
        if body.statements or several or needs_index:
            listed = [f"const {dtypes.lookup(str(one.type)).ctype} {one.name}" for one in inputs]
            listed += ["const ptrdiff_t index"] * needs_index
            lines = "".join(f"  {line}\n" for line in emit(body.statements).splitlines())
            preamble.append(
                f"__device__ inline {acc_type} map_element({', '.join(listed)}) {{\n"
                f"{lines}  return {value};\n}}"
            )
            given = [one.name for one in inputs] + ["_J"] * needs_index
            value = f"map_element({', '.join(given)})"
        identities = [acc.identity for acc in accs]
        identity = None
        if all(one is not None for one in identities):
            identity = _braced(acc_type, identities) if several else identities[0]
        spec = build_spec(
            ReductionSpec,
            name=self._name,
            options=self._options,
            inputs=self._inputs(),
            outputs=", ".join(f"{one.type} {one.name}" for one in targets),
            preamble="\n".join(preamble),
            map=value,
            reduce=_braced(acc_type, joined) if several else joined[0],
            post_map=post,
            identity=identity,
            reduce_type=acc_type,
        )
        writes = tuple(Output(one) for one in group.results)
        statements = (*body.statements, *end.statements)
        is_scan = isinstance(group.reductions[0], Scan)
        return LoweredKernel(spec, self._reads, writes, group.axes, statements, is_scan)

    def _end(
        self, group: ReductionGroup, accs: Sequence[Accumulator], members: Sequence[str]
    ) -> tuple[str, list[Name], BodyBuilder]:
        """Return the statements that assign the outputs, the outputs, and the body."""
        known: dict[Node, Expression] = {}
        lines: list[str] = []
        for number, (one, acc, name) in enumerate(
            zip(group.reductions, accs, members, strict=True)
        ):
            variable = Name(f"total{number}" if len(accs) > 1 else "total", one.dtype)
            text = acc.result(f"a.{name}" if name else "a")
            lines.append(f"const {dtypes.lookup(one.dtype).ctype} {variable.name} = {text};")
            known[one] = variable
        scalars = [one for one in self._reads if isinstance(one, Scalar)]
        numbers: dict[Node, Expression] = {one: self._params[one] for one in scalars}
        body = BodyBuilder({**known, **numbers, **_views_of(group.results, known)}, "r")
        targets = [Name(f"out{number}", one.dtype) for number, one in enumerate(group.results)]
        values = [body.expression(one) for one in group.results]
        for target, value in zip(targets, values, strict=True):
            body.assign(target, value)
        names = [*known.values(), *numbers.values(), *targets]
        check(body.statements, {one.name: one.type for one in names if isinstance(one, Name)})
        text = "\n".join([*lines, emit(body.statements)]).removesuffix(";")
        return text, targets, body

    def _inputs(self) -> str:
        return ", ".join(
            f"{'raw ' * isinstance(one, Whole)}{one.dtype} {self._params[one].name}"
            for one in self._reads
        )

    def _param(self, value: Node) -> Name:
        wanted = instead = "x"
        source = value.input if isinstance(value, View) else value
        if isinstance(source, Input):
            wanted, instead = self._argument_names[source.position], f"x{source.position}"
        elif isinstance(source, Count):
            wanted = instead = "count"
        elif isinstance(source, Reduce):
            wanted, instead = source.function, f"{source.function}_"
            instead = f"{source.function}_value"
        else:
            wanted = instead = "given"
        name = self._names.take(wanted, instead)
        return Name(name, BufferType(value.dtype) if isinstance(value, Whole) else value.dtype)


def _is_called(value: Node) -> bool:
    """Return whether a value is that of a function, not of an operator."""
    if not isinstance(value, Elementwise) or value.function not in BUILTINS:
        return False
    return "(" in BUILTINS[value.function].spelling(*(one.dtype for one in value.operands))


def _let_cast(body: BodyBuilder, value: Expression, acc: Accumulator) -> Expression:
    return value if value.type == acc.element_type else body.let(Cast(value, acc.element_type))


def _views_of(results: Iterable[Node], known: Mapping[Node, Expression]) -> dict[Node, Expression]:
    """Return views of reductions, which at the end of their kernel are these themselves."""
    return {
        one: known[one.input]
        for one in reachable(results)
        if isinstance(one, View) and one.input in known
    }


def _braced(ctype: str, members: Sequence[str | None]) -> str:
    return f"{ctype}{{{', '.join(map(str, members))}}}"
