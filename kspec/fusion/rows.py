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
from dataclasses import dataclass, replace

from kspec.fusion.accumulators import ACCUMULATORS
from kspec.fusion.graph import (
    ArrayInput,
    Count,
    Elementwise,
    Graph,
    Node,
    Reduce,
    Scalar,
    ScalarInput,
    View,
    is_number,
)
from kspec.fusion.lower import BodyBuilder, NameAllocator, definitions
from kspec.fusion.partition import Output, arguments_of, reachable
from kspec.fusion.types import is_narrow
from kspec.fusion.view_ops import ViewOp
from kspec.ir.emit import emit, emit_expression, literal
from kspec.ir.nodes import Cast, Expression, FunctionCall
from kspec.ir.nodes import Name as Variable
from kspec.ir.types import ctype
from kspec.model import dtypes
from kspec.model.definitions import headers_for

WHOLE, PER_ROW, PER_COLUMN = "whole", "per row", "per column"
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
        if not alike or one.function not in {*_REDUCED, "squares"}:
            return None
    if not all(map(_is_known_view, reachable(out.value for out in outputs))):
        return None
    expanded = _without_squares(graph, outputs, count)
    program = _Writer(expanded, name, names, domain, count)
    return replace(program.result(), options=options) if program.is_possible() else None


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

    def __init__(
        self,
        outputs: Sequence[Output],
        name: str,
        names: Sequence[str],
        domain: Node,
        count: int,
    ) -> None:
        self._outputs = outputs
        self._name = name
        self._argument_names = names
        self._domain = domain
        self._count = count
        self._values = reachable(one.value for one in outputs)
        self._kinds: dict[Node, str | None] = {}
        # Some units in the last place of float32 are rounded away.
        self._narrow = all(is_narrow(one.value.dtype) for one in outputs)

    def is_possible(self) -> bool:
        """Return whether everything is about the same rows, and some element waits for a row."""
        kinds = [self._kind(one) for one in self._values]
        arrays = [one for one in self._values if isinstance(one, ArrayInput | View)]
        if None in kinds or not all(map(_is_real, self._values)):
            return False
        if any(_is_given(one.value) for one in self._outputs):
            return False
        if any(self._kind(one.value) == PER_COLUMN for one in self._outputs):
            return False
        if not all(map(self._is_read_first, self._values)):
            return False
        if not any(self._kind(one) == WHOLE for one in arrays if self._is_memory(one)):
            return False
        self._find_loops()
        return self._last > 0

    def _kind(self, value: Node) -> str | None:
        """Return whether a value is of elements of rows or of rows; None if it is neither."""
        if value not in self._kinds:
            self._kinds[value] = self._find_kind(value)
        return self._kinds[value]

    def _find_kind(self, value: Node) -> str | None:
        if is_number(value) or isinstance(value, Reduce):
            return PER_ROW
        if isinstance(value, View) and isinstance(value.input, Reduce):
            return PER_ROW
        rows, row = self._domain.sizes[: -self._count], self._domain.sizes[-self._count :]
        ones = (1,) * self._count
        sizes = value.sizes
        kind: str | None = None
        if sizes == rows + row:
            kind = WHOLE
        elif sizes == rows + ones:
            kind = PER_ROW
        elif not value.shape:
            kind = None
        elif sizes[-self._count :] == row and all(one == 1 for one in sizes[: -self._count]):
            kind = PER_COLUMN
        return self._kind_of_function(value, kind) if isinstance(value, Elementwise) else kind

    def _kind_of_function(self, value: Elementwise, by_shape: str | None) -> str | None:
        rows = self._domain.sizes[: -self._count]
        framed = rows + (1,) * self._count
        inputs = [one for one in value.operands if not is_number(one)]
        kinds = {self._kind(one) for one in inputs}
        if None in kinds:
            return None
        if kinds == {PER_ROW}:  # with or without the axes of extent 1
            return PER_ROW if value.sizes in (rows, framed) else None
        # A number of a row that has lost its axes would meet elements of other rows.
        met = [one.sizes for one in inputs if self._kind(one) == PER_ROW]
        if by_shape == WHOLE:
            return WHOLE if all(one == framed or set(one) <= {1} for one in met) else None
        return PER_COLUMN if by_shape == PER_COLUMN and not met else None

    def _is_read_first(self, value: Node) -> bool:
        """Return whether what a row reads of an array that is written to is what it writes."""
        if not self._is_memory(value):
            return True
        written = {one.target: one.value for one in self._outputs if one.target is not None}
        found = arguments_of(value) & written.keys()
        return not found or (
            isinstance(value, ArrayInput)
            and self._kind(value) != PER_COLUMN
            and self._kind(value) == self._kind(written[value.position])
        )

    def _is_memory(self, value: Node) -> bool:
        return isinstance(value, ArrayInput) or (
            isinstance(value, View) and isinstance(value.input, ArrayInput)
        )

    def _is_element(self, value: Node) -> bool:
        return self._kind(value) in (WHOLE, PER_COLUMN)

    def _find_loops(self) -> None:
        """Find in which loop over the elements of a row each value is computed."""
        stages: dict[Node, int] = {}
        for value in self._values:
            stage = max((stages[one] for one in value.operands), default=0)
            stages[value] = stage + isinstance(value, Reduce)
        self._stages = stages
        whole = [one.value for one in self._outputs if self._is_element(one.value)]
        self._last = max((stages[one] for one in whole), default=0)
        reductions = [one for one in self._values if isinstance(one, Reduce)]
        if not whole:
            self._last = max(stages[one.input] for one in reductions)
        needed: dict[Node, set[int]] = {one: set() for one in self._values}
        for one in whole:
            needed[one].add(self._last)
        for one in reductions:
            needed[one.input].add(stages[one.input])
        for value in reversed(self._values):
            if self._is_element(value) and isinstance(value, Elementwise) and needed[value]:
                loops = needed[value] if self._is_converted(value) else {min(needed[value])}
                for one in value.operands:
                    if self._is_element(one):
                        needed[one] |= loops
        self._needed = needed

    def _is_converted(self, value: Node) -> bool:
        """Return whether a value is one in memory, of another type.

        It is converted wherever it is needed: kept instead, it would take more registers.
        """
        return (
            isinstance(value, Elementwise)
            and value.function == "cast"
            and self._is_memory(value.operands[0])
        )

    def result(self) -> RowProgram:
        """Return the program."""
        names = NameAllocator(_OWN)
        memory = [one for one in self._values if self._is_memory(one)]
        memory = [one for one in memory if not self._has_only_views(one)]
        numbers = [one for one in self._values if isinstance(one, ScalarInput | Count)]
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
            if self._kind(one) != PER_COLUMN:
                steps.append(f"long long {variable.name}_step")
        for number, out in enumerate(self._outputs):
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
        in_place = any(one.target is not None for one in self._outputs)
        pointer = "* " if in_place else "* __restrict__ "
        listed = ",\n".join(f"    {one.replace('* ', pointer)}" for one in params)
        types = dict.fromkeys(one.dtype for one in self._values)
        headers = [*headers_for(tuple(types)), "kspec/ufuncs.cuh", "kspec/rows.cuh"]
        defined = "".join(f"\n{one}\n" for one in definitions(self._values))
        code = "".join(f'#include "{header}"\n' for header in headers) + (
            f"{defined}\ntemplate <int V, int PACKS, int LANES, int BLOCKS>\n"
            "__global__ void "
            "__launch_bounds__(kspec::threads_of_rows(LANES), BLOCKS ? 1 : 0)\n"
            f"{self._name}(\n{listed}) {{\n{body}}}\n"
        )
        packed = [one for one in memory if self._is_element(one)]
        written = [one.value for one in self._outputs if self._is_element(one.value)]
        return RowProgram(
            self._name,
            code,
            tuple(params),
            tuple((one, str(self._kind(one))) for one in memory),
            tuple(numbers),
            tuple((one, str(self._kind(one.value))) for one in self._outputs),
            self._count,
            self._domain,
            max(dtypes.lookup(one.dtype).itemsize for one in (*packed, *written)),
            sum(dtypes.lookup(one.dtype).itemsize for one in packed),
        )

    def _has_only_views(self, value: Node) -> bool:
        """Return whether an argument is only there for its views."""
        users = [one for one in self._values if value in one.operands]
        outputs = [one.value for one in self._outputs]
        return bool(users) and all(isinstance(one, View) for one in users) and value not in outputs

    def _beginning(self, memory: Iterable[Node], numbers: Iterable[Node]) -> Iterable[str]:
        joins = sum(isinstance(one, Reduce) for one in self._values)
        yield f"typedef typename kspec::RowsOf<V, PACKS, LANES, BLOCKS, {joins}>::type Rows;"
        yield "Rows row(rows, length);"
        arrays = [one for one in memory if self._is_element(one) and self._needed[one]]
        # In the order in which loops load them.
        for one in sorted(arrays, key=lambda one: min(self._needed[one])):
            name, type_ = self._variables[one].name, ctype(one.dtype)
            if self._kind(one) == WHOLE:
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
            if self._kind(one) == PER_ROW:
                yield (
                    f"const {type_} {name} = row.live ? {name}_data[row.index * {name}_step] : "
                    f"{literal(0, one.dtype)};"
                )

    def _loops(self) -> Iterable[str]:
        self._known: dict[Node, Expression] = {
            one: self._variables[one]
            for one in self._values
            if one in self._variables and not self._is_element(one)
        }
        self._saved: dict[Node, Variable] = {}
        self._joins = 0
        for loop in range(self._last + 1):
            yield from self._loop(loop)

    def _loop(self, loop: int) -> Iterable[str]:
        elements: dict[Node, Expression] = {}
        head: list[str] = []
        columns: list[str] = []
        for one in self._values:
            variable = self._variables.get(one) or self._saved.get(one)
            if variable and self._is_element(one) and loop in self._needed[one]:
                name = variable.name
                at = f"{name}_of_row[k][j]"
                if self._kind(one) == PER_COLUMN and self._is_memory(one):
                    columns.append(name)
                    at = f"{name}_of_pack.get(j)"
                elif self._is_memory(one):
                    at = f"{name}_of_row.get(k, j)"
                head.append(f"const {ctype(one.dtype)} {name} = {at};")
                elements[one] = variable
        reductions = [
            one
            for one in self._values
            if isinstance(one, Reduce) and self._stages[one.input] == loop
        ]
        outputs = [
            (number, one)
            for number, one in enumerate(self._outputs)
            if self._is_element(one.value) and loop == self._last
        ]
        if not reductions and not outputs:
            return
        # Loaded or computed here, not earlier: it takes registers.
        due = [
            one
            for one in self._values
            if self._is_element(one) and min(self._needed[one], default=None) == loop
        ]
        for one in due:
            if self._is_memory(one) and self._kind(one) == WHOLE:
                name = self._variables[one].name
                yield f"{name}_of_row.load(row, {name}_data, {name}_step);"
        computed = [
            one
            for one in self._values
            if isinstance(one, Elementwise)
            and (one in due or (self._is_converted(one) and loop in self._needed[one]))
        ]
        # Values of rows that are known by now are computed in front.
        self._know_views()
        per_row = BodyBuilder(self._known, f"r{loop}_")
        for one in computed:
            for operand in one.operands:
                if not self._is_element(operand):
                    self._known[operand] = per_row.expression(operand)
        yield from emit(per_row.statements).splitlines()
        divisors: list[str] = []
        inside = BodyBuilder({**self._known, **elements}, f"t{loop}_")
        saved: list[tuple[Node, Expression]] = []
        for one in computed:
            if self._is_quotient(one):
                by = f"by{loop}_{len(divisors)}"
                divisor = self._known[one.operands[1]]
                divisors.append(f"const kspec::Reciprocal {by}({emit_expression(divisor)});")
                inside.define(
                    one,
                    FunctionCall(f"{by}.under", (inside.expression(one.operands[0]),), one.dtype),
                )
            if self._narrow and one.function == "exp" and one.dtype == "float32":
                inside.define(
                    one,
                    FunctionCall(
                        "kspec::quick_exp", (inside.expression(one.operands[0]),), one.dtype
                    ),
                )
            found = inside.expression(one)
            if max(self._needed[one]) > loop and not self._is_converted(one):
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

    def _is_quotient(self, value: Elementwise) -> bool:
        """Return whether a value is an element over a number of its row, in float32."""
        above, below = value.operands if value.function == "divide" else (value, value)
        return (
            self._narrow
            and value.dtype == "float32"
            and self._is_element(above)
            and not self._is_element(below)
        )

    def _know_views(self) -> None:
        """Know views of reductions, which only have axes of extent 1 more."""
        for one in self._values:
            if isinstance(one, View) and one.input in self._known:
                self._known[one] = self._known[one.input]

    def _row_outputs(self) -> Iterable[str]:
        self._know_views()
        body = BodyBuilder(self._known, "r_")
        lines: list[str] = []
        for number, output in enumerate(self._outputs):
            if not self._is_element(output.value):
                text = emit_expression(body.expression(output.value))
                lines.append(f"if (row.live && row.lane == 0) out{number}[row.index] = {text};")
        yield from emit(body.statements).splitlines()
        yield from lines


def _is_known_view(value: Node) -> bool:
    """Return whether a value is not a view, or one that a row program has.

    These are views of arguments, and those of reductions that put the axes of a row back in.
    """
    if not isinstance(value, View):
        return True
    source = value.input
    if not isinstance(source, Reduce):
        return isinstance(source, ArrayInput)
    frame = (slice(None),) * len(source.shape) + (None,) * len(source.axes)
    return value.ops == (ViewOp("index", frame),)


def _is_given(value: Node) -> bool:
    """Return whether there is nothing to compute."""
    of_reduction = isinstance(value, View) and isinstance(value.input, Reduce)
    return isinstance(value, ArrayInput | View | Scalar) and not of_reduction


def _is_real(value: Node) -> bool:
    return dtypes.lookup(value.dtype).kind in "biuf"


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
