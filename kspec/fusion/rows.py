"""Reductions along rows and what is computed of the same rows from them, as one kernel.

A softmax needs the largest element of a row, then a sum, then each element again: three kernels, or
one that keeps the row in registers.  That is possible if everything is about the same rows: all
reductions are over the last axes of one shape, and the arrays have that shape, or one number for
each row, or one row for all.

The kernel is a raw one, a template of how many elements a thread takes (``kspec/rows.cuh``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from kspec.dataclass import dataclass
from kspec.fusion.accumulators import ACCUMULATORS
from kspec.fusion.graph import (
    ArrayInput,
    Concatenation,
    Count,
    Elementwise,
    Graph,
    Node,
    Reduce,
    ScalarInput,
    Scan,
    View,
)
from kspec.fusion.lower import BodyBuilder, NameAllocator, definitions
from kspec.fusion.partition import Output, reachable
from kspec.fusion.row_values import PER_COLUMN, PER_ROW, WHOLE, RowValues, is_known_view
from kspec.fusion.types import is_narrow
from kspec.ir.emit import emit, emit_expression, literal
from kspec.ir.nodes import Cast, Expression, FunctionCall
from kspec.ir.nodes import Name as Variable
from kspec.ir.types import ctype
from kspec.model import dtypes
from kspec.model.definitions import headers_for

# The names that the kernel's text has besides those of arguments.
_OWN = re.compile(
    r"row|rows|Rows|length|k|j|r_\d+|kept\d+|[a-z]+\d+_\d+|\w+_(data|step|given|of_row|of_pack)"
)
_REDUCED = frozenset({"sum", "prod", "max", "min", "nanmax", "nanmin", "any", "all"})
_BEGINNINGS = {"max": "lowest", "nanmax": "lowest", "min": "highest", "nanmin": "highest"}


@dataclass(frozen=True, eq=False)
class RowProgram:
    """A kernel that keeps rows in registers.

    Attributes
    ----------
    name : str
        Of the kernel, a template of V, PACKS, LANES and BLOCKS.
    code : str
        CUDA C++.
    params : tuple of str
        Its parameters: arrays read and written, numbers, steps from row to row, sizes.
    reads : tuple of (Node, str)
        Arrays in the order of its parameters, and whether they have whole rows, a number for each
        row, or one row for all.
    numbers : tuple of Node
        Its scalars, which follow.
    writes : tuple of (Output, str)
        Its outputs, and what they have.
    axes : int
        How many axes at the end make a row.
    domain : Node
        Something with the shape of all rows.
    widest : int
        Bytes of the largest element.
    kept : int
        Bytes of an element of all arrays that it reads, together.
    options : tuple of str
        Compiler options.
    """

    name: str
    code: str
    params: tuple[str, ...]
    reads: tuple[tuple[Node, str], ...]
    numbers: tuple[Node, ...]
    writes: tuple[tuple[Output, str], ...]
    axes: int
    domain: Node
    widest: int
    kept: int
    options: tuple[str, ...] = ()


def row_program(
    graph: Graph,
    outputs: Sequence[Output],
    name: str,
    names: Sequence[str],
    options: tuple[str, ...] = (),
) -> RowProgram | None:
    """Return the row program of a function, or None if there is none.

    Parameters
    ----------
    graph : Graph
        Makes values.
    outputs : sequence of Output
        What the function gives back.
    name : str
        Of the kernel.
    names : sequence of str
        Of the function's arguments.
    options : tuple of str, optional
        Compiler options.
    """
    found = [one for one in reachable(out.value for out in outputs) if isinstance(one, Reduce)]
    if not found:
        return None
    domain, axes = found[0].input, found[0].axes
    count = len(axes)
    last = tuple(range(len(domain.shape) - count, len(domain.shape)))
    for one in found:
        alike = one.input.sizes == domain.sizes and one.axes == axes == last
        if not alike or isinstance(one, Scan) or one.function not in {*_REDUCED, "squares"}:
            return None
    values = reachable(out.value for out in outputs)
    if not all(map(is_known_view, values)) or any(isinstance(one, Concatenation) for one in values):
        return None
    row = RowValues(_without_squares(graph, outputs, count), domain, count)
    if not row.is_possible():
        return None
    return replace(_Writer(row, name, names).result(), options=options)


def prefers_row_program(outputs: Sequence[Output], kernels: int) -> bool:
    """Return whether a row program is faster than this many kernels, where it fits.

    It is than several.  It is than one that finds squared deviations together with the mean that
    they are from, which takes a division for each element.
    """
    values = reachable(one.value for one in outputs)
    squares = any(isinstance(one, Reduce) and one.function == "squares" for one in values)
    return kernels > 1 or squares


def _without_squares(graph: Graph, outputs: Sequence[Output], count: int) -> list[Output]:
    """Return outputs whose squared deviations are found in two steps, the mean first."""
    known: dict[Node, Node] = {}

    def change(value: Node) -> Node:
        if isinstance(value, Reduce) and value.function == "squares":
            element = known[value.input]
            number = graph.count([element.shape[axis] for axis in value.axes], element.dtype)
            total = graph.reduce("sum", element, value.axes, element.dtype)
            mean = graph.apply("divide", (total, number), element.dtype)
            frame = (slice(None),) * len(total.shape) + (None,) * count
            mean = graph.index(mean, frame)
            away = graph.apply("subtract", (element, mean), element.dtype)
            square = graph.apply("multiply", (away, away), element.dtype)
            return graph.cast(graph.reduce("sum", square, value.axes, element.dtype), value.dtype)
        return graph.made_of(value, [known[one] for one in value.operands], value.dtype)

    for value in reachable(out.value for out in outputs):
        known[value] = change(value)
    return [Output(known[one.value], one.target) for one in outputs]


class _Writer:
    """Writes the kernel: loops over the elements of a row, and what is between them."""

    def __init__(self, row: RowValues, name: str, names: Sequence[str]) -> None:
        self._row = row
        self._name = name
        self._argument_names = names
        # Some units in the last place of float32 are rounded away.
        self._narrow = all(is_narrow(one.value.dtype) for one in row.outputs)

    def result(self) -> RowProgram:
        """Return the program."""
        names = NameAllocator(_OWN)
        memory = [one for one in self._row.values if self._row.is_memory(one)]
        memory = [one for one in memory if not self._has_only_views(one)]
        numbers = [one for one in self._row.values if isinstance(one, ScalarInput | Count)]
        self._variables: dict[Node, Variable] = {}
        params: list[str] = []
        steps: list[str] = []
        for one in memory:
            source = one.input if isinstance(one, View) else one
            assert isinstance(source, ArrayInput)
            wanted = self._argument_names[source.position]
            variable = Variable(names.take(wanted, f"x{source.position}"), one.dtype)
            self._variables[one] = variable
            params.append(f"const {ctype(one.dtype)}* {variable.name}_data")
            if self._row.kind(one) != PER_COLUMN:
                steps.append(f"long long {variable.name}_step")
        for number, out in enumerate(self._row.outputs):
            params.append(f"{ctype(out.value.dtype)}* out{number}")
        for one in numbers:
            if isinstance(one, ScalarInput):
                wanted, type_ = self._argument_names[one.position], ctype(one.dtype)
            else:
                wanted, type_ = "count", "long long" if one.dtype == "int64" else "double"
            variable = Variable(names.take(wanted, "number"), one.dtype)
            self._variables[one] = variable
            params.append(f"{type_} {variable.name}_given")
        params += [*steps, "long long rows", "long long length"]
        inside = [*self._numbers_of_row(memory), *self._loops(), *self._row_outputs()]
        lines = [
            *self._beginning(memory, numbers),
            "for (; row.left; row.next()) {",
            *[f"  {line}" for line in inside],
            "}",
        ]
        body = "".join(f"  {line}\n" for line in lines)
        in_place = any(one.target is not None for one in self._row.outputs)
        pointer = "* " if in_place else "* __restrict__ "
        listed = ",\n".join(f"    {one.replace('* ', pointer)}" for one in params)
        types = dict.fromkeys(one.dtype for one in self._row.values)
        headers = [*headers_for(tuple(types)), "kspec/ufuncs.cuh", "kspec/rows.cuh"]
        defined = "".join(f"\n{one}\n" for one in definitions(self._row.values))
        code = "".join(f'#include "{header}"\n' for header in headers) + (
            f"{defined}\ntemplate <int V, int PACKS, int LANES, int BLOCKS>\n"
            "__global__ void "
            "__launch_bounds__(kspec::threads_of_rows(LANES), BLOCKS ? 1 : 0)\n"
            f"{self._name}(\n{listed}) {{\n{body}}}\n"
        )
        packed = [one for one in memory if self._row.is_element(one)]
        written = [one.value for one in self._row.outputs if self._row.is_element(one.value)]
        return RowProgram(
            self._name,
            code,
            tuple(params),
            tuple((one, str(self._row.kind(one))) for one in memory),
            tuple(numbers),
            tuple((one, str(self._row.kind(one.value))) for one in self._row.outputs),
            self._row.count,
            self._row.domain,
            max(dtypes.lookup(one.dtype).itemsize for one in (*packed, *written)),
            sum(dtypes.lookup(one.dtype).itemsize for one in packed),
        )

    def _has_only_views(self, value: Node) -> bool:
        """Return whether an argument is only there for its views."""
        users = [one for one in self._row.values if value in one.operands]
        outputs = [one.value for one in self._row.outputs]
        return bool(users) and all(isinstance(one, View) for one in users) and value not in outputs

    def _beginning(self, memory: Iterable[Node], numbers: Iterable[Node]) -> Iterable[str]:
        joins = sum(isinstance(one, Reduce) for one in self._row.values)
        yield f"typedef typename kspec::RowsOf<V, PACKS, LANES, BLOCKS, {joins}>::type Rows;"
        yield "Rows row(rows, length);"
        arrays = [one for one in memory if self._row.is_element(one) and self._row.needed[one]]
        # In the order in which loops load them.
        for one in sorted(arrays, key=lambda one: min(self._row.needed[one])):
            name, type_ = self._variables[one].name, ctype(one.dtype)
            if self._row.kind(one) == WHOLE:
                data = f"row, {name}_data, {name}_step"
                yield f"kspec::Elements<{type_}, Rows> {name}_of_row({data});"
            else:
                yield f"const kspec::Columns<{type_}, Rows> {name}_of_row(row, {name}_data);"
        for one in numbers:
            name, type_ = self._variables[one].name, ctype(one.dtype)
            yield f"const {type_} {name} = static_cast<{type_}>({name}_given);"

    def _numbers_of_row(self, memory: Iterable[Node]) -> Iterable[str]:
        for one in memory:
            name, type_ = self._variables[one].name, ctype(one.dtype)
            if self._row.kind(one) == PER_ROW:
                yield (
                    f"const {type_} {name} = row.live ? {name}_data[row.index * {name}_step] : "
                    f"{literal(0, one.dtype)};"
                )

    def _loops(self) -> Iterable[str]:
        self._known: dict[Node, Expression] = {
            one: self._variables[one]
            for one in self._row.values
            if one in self._variables and not self._row.is_element(one)
        }
        self._saved: dict[Node, Variable] = {}
        self._joins = 0
        for loop in range(self._row.last + 1):
            yield from self._loop(loop)

    def _loop(self, loop: int) -> Iterable[str]:
        elements: dict[Node, Expression] = {}
        head: list[str] = []
        columns: list[str] = []
        for one in self._row.values:
            variable = self._variables.get(one) or self._saved.get(one)
            if variable and self._row.is_element(one) and loop in self._row.needed[one]:
                name = variable.name
                at = f"{name}_of_row[k][j]"
                if self._row.kind(one) == PER_COLUMN and self._row.is_memory(one):
                    columns.append(name)
                    at = f"{name}_of_pack.get(j)"
                elif self._row.is_memory(one):
                    at = f"{name}_of_row.get(k, j)"
                head.append(f"const {ctype(one.dtype)} {name} = {at};")
                elements[one] = variable
        reductions = [
            one
            for one in self._row.values
            if isinstance(one, Reduce) and self._row.stages[one.input] == loop
        ]
        outputs = [
            (number, one)
            for number, one in enumerate(self._row.outputs)
            if self._row.is_element(one.value) and loop == self._row.last
        ]
        if not reductions and not outputs:
            return
        # Loaded or computed here, not earlier: it takes registers.
        due = [
            one
            for one in self._row.values
            if self._row.is_element(one) and min(self._row.needed[one], default=None) == loop
        ]
        for one in due:
            if self._row.is_memory(one) and self._row.kind(one) == WHOLE:
                name = self._variables[one].name
                yield f"{name}_of_row.load(row, {name}_data, {name}_step);"
        computed = [
            one
            for one in self._row.values
            if isinstance(one, Elementwise)
            and (one in due or (self._row.is_converted(one) and loop in self._row.needed[one]))
        ]
        # Values of rows that are known by now are computed in front.
        self._know_views()
        per_row = BodyBuilder(self._known, f"r{loop}_")
        for one in computed:
            for operand in one.operands:
                if not self._row.is_element(operand):
                    self._known[operand] = per_row.expression(operand)
        yield from emit(per_row.statements).splitlines()
        divisors: list[str] = []
        inside = BodyBuilder({**self._known, **elements}, f"t{loop}_")
        saved: list[tuple[Node, Expression]] = []
        for one in computed:
            quick = self._quick(one, inside, f"by{loop}_{len(divisors)}", divisors)
            if quick is not None:
                inside.define(one, quick)
            found = inside.expression(one)
            if max(self._row.needed[one]) > loop and not self._row.is_converted(one):
                saved.append((one, found))
        yield from divisors
        ends: list[str] = []
        acc_lines: list[str] = []
        for number, one in enumerate(reductions):
            acc = ACCUMULATORS[one.function](one)
            name = f"acc{loop}_{number}"
            value = inside.expression(one.input)
            if value.type != acc.element_type:
                value = inside.let(Cast(value, acc.element_type))
            begin = acc.identity or _beginning(one.function, acc.element_type)
            yield f"{acc.ctype} {name} = {begin};"
            acc_lines.append(f"{name} = {acc.join(name, emit_expression(value))};")
            joined = acc.join("a", "b")
            number_of_join = self._joins
            self._joins += 1
            result = Variable(f"{one.function}{loop}_{number}", one.dtype)
            two = f"const {acc.ctype}& a, const {acc.ctype}& b"
            ends += [
                f"{name} = row.template all<{number_of_join}>({name}, []({two}) {{",
                f"  return static_cast<{acc.ctype}>({joined});",
                "});",
            ]
            ends.append(f"const {ctype(one.dtype)} {result.name} = {acc.result(name)};")
            self._known[one] = result
        for one, _ in saved:
            variable = Variable(f"kept{len(self._saved)}", one.dtype)
            self._saved[one] = variable
            yield f"{ctype(one.dtype)} {variable.name}_of_row[PACKS][V];"
        lines = [*head, *emit(inside.statements).splitlines(), *acc_lines]
        lines += [
            f"{self._saved[one].name}_of_row[k][j] = {emit_expression(found)};"
            for one, found in saved
        ]
        lines += [
            f"out{number}_of_pack[j] = {emit_expression(inside.expression(output.value))};"
            for number, output in outputs
        ]
        yield "#pragma unroll"
        yield "for (int k = 0; k < PACKS; ++k) {"
        yield "  if (!row.has(k)) continue;"
        for name in columns:
            yield f"  const auto {name}_of_pack = {name}_of_row.of(row, {name}_data, k);"
        for number, output in outputs:
            yield f"  {ctype(output.value.dtype)} out{number}_of_pack[V];"
        yield "#pragma unroll"
        yield "  for (int j = 0; j < V; ++j) {"
        yield from (f"    {line}" for line in lines)
        yield "  }"
        for number, _ in outputs:
            yield (
                f"  kspec::store_pack<V>(out{number} + row.index * row.length + row.at(k), "
                f"out{number}_of_pack);"
            )
        yield "}"
        yield from ends

    def _quick(
        self, value: Elementwise, inside: BodyBuilder, by: str, divisors: list[str]
    ) -> Expression | None:
        """Return the quick way to compute a value, or None if there is none.

        A quotient by a number of the row needs the divisor `by`, which is added to `divisors`.
        """
        if not self._narrow or value.dtype != "float32":
            return None
        if value.function == "exp":
            operand = inside.expression(value.operands[0])
            return FunctionCall("kspec::quick_exp", (operand,), value.dtype)
        if value.function != "divide":
            return None
        above, below = value.operands
        if not self._row.is_element(above) or self._row.is_element(below):
            return None
        number = emit_expression(self._known[below])
        divisors.append(f"const kspec::Reciprocal {by}({number});")
        return FunctionCall(f"{by}.under", (inside.expression(above),), value.dtype)

    def _know_views(self) -> None:
        """Know views of reductions, which only have axes of extent 1 more."""
        for one in self._row.values:
            if isinstance(one, View) and one.input in self._known:
                self._known[one] = self._known[one.input]

    def _row_outputs(self) -> Iterable[str]:
        self._know_views()
        body = BodyBuilder(self._known, "r_")
        lines: list[str] = []
        for number, output in enumerate(self._row.outputs):
            if not self._row.is_element(output.value):
                text = emit_expression(body.expression(output.value))
                lines.append(f"if (row.live && row.lane == 0) out{number}[row.index] = {text};")
        yield from emit(body.statements).splitlines()
        yield from lines


def _beginning(function: str, dtype: str) -> str:
    """Return the best of no elements: worse than any."""
    row = dtypes.lookup(dtype)
    lowest = _BEGINNINGS[function] == "lowest"
    if row.kind != "f":
        return _limit(row, lowest)
    worst = "nan" if function.startswith("nan") else "-inf" if lowest else "inf"
    return literal(float(worst), dtype)


def _limit(row: dtypes.DType, lowest: bool) -> str:
    bits = 8 * row.itemsize
    if row.kind == "b":
        return "false" if lowest else "true"
    if row.kind == "u":
        return literal(0 if lowest else 2**bits - 1, row.name)
    return literal(-(2 ** (bits - 1)) if lowest else 2 ** (bits - 1) - 1, row.name)
