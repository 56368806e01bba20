"""A kernel's tree in, the C++ function out that runs blocks of it as loops over their threads.

Between two barriers all threads run to the second, one after another, in one loop.  An integer that
follows from the thread's coordinates is computed in every loop, other variables are kept in arrays.
`kspec.compiler.host.loops.ranges` writes the test that has to come first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from kspec.compiler.host.loops.spelling import narrow, wide
from kspec.compiler.host.loops.tree import (
    Assignment,
    Braces,
    Conditional,
    CountingLoop,
    Definition,
    KernelTree,
    KernelVariable,
    MeetingPoint,
    NumberLiteral,
    TreeStatement,
    VariableUse,
    has_barrier,
    parts_of,
    statements_of,
    walk,
)

_MAX_KEPT = 16  # variables that threads keep from one loop to the next, on the stack


def run_function(kernel: KernelTree, line_of: Callable[[int], str]) -> str:
    """Return the function ``kspec_loops`` of a kernel, or nothing.

    Parameters
    ----------
    kernel : KernelTree
        What is to run.
    line_of : callable
        Returns the line marker of an offset in the text: a kernel may be stopped in its loops.
    """
    writer = _LoopWriter(kernel, line_of)
    if len(writer.kept) > _MAX_KEPT:
        return ""
    parameters = ", ".join(["const ::kspec_host::BlockRun& kspec_run", *kernel.parameters])
    arrays = [
        f"{one.type} {name}[::kspec_host::MAX_BLOCK_THREADS];" for one, name in writer.kept.items()
    ]
    return "\n".join(
        [
            f"KSPEC_HOST_LOOPS void kspec_loops({parameters}) {{",
            "const uint3 blockDim = kspec_run.blockDim, gridDim = kspec_run.gridDim;",
            *arrays,
            *(_shared_array(one) for one in kernel.shared),
            "for (unsigned kspec_at = kspec_run.first; kspec_at <= kspec_run.last; ++kspec_at) {",
            "const uint3 blockIdx = kspec_run.begin(kspec_at);",
            *(_poison(one) for one in kernel.shared),
            *_marked(writer.region(kernel.body)),
            "}",
            "}",
        ]
    )


def _marked(lines: Iterable[str]) -> Iterator[str]:
    """Repeat each line marker before all lines up to the next."""
    marker = ""
    for line in lines:
        if line.startswith("# "):
            marker = line
        else:
            yield from (marker, line) if marker else (line,)


def _shared_array(variable: KernelVariable) -> str:
    if not variable.extents:
        return (
            f"{variable.type}* const {variable.name} = ({variable.type}*)kspec_run.dynamic_shared;"
        )
    extents = "".join(f"[{narrow(one)}]" for one in variable.extents)
    return f"alignas(16) {variable.type} {variable.name}{extents};"


def _poison(variable: KernelVariable) -> str:
    """Return the statement that makes an array forget what the last block left in it."""
    if not variable.extents:
        return "::kspec_host::poison(kspec_run.dynamic_shared, kspec_run.dynamic_bytes);"
    return f"::kspec_host::poison({variable.name}, sizeof {variable.name});"


class _LoopWriter:
    """Writes loops over threads; `kept` are the variables that live longer than one of them."""

    def __init__(self, kernel: KernelTree, line_of: Callable[[int], str]) -> None:
        self.line_of = line_of
        self.visible: list[KernelVariable] = []  # indices that each loop computes anew
        self.kept: dict[KernelVariable, str] = {}
        self.group_of: dict[KernelVariable, int] = {}
        self.groups = 0
        self.find_kept(kernel.body)

    # ------------------------------------------------------------- variables

    def find_kept(self, statements: Sequence[TreeStatement]) -> None:
        """Find the variables that are used in another loop than the one that declares them."""
        for items, inner in _regions(statements):
            if inner is not None:
                self.find_kept(inner)
                continue
            self.groups += 1
            for one in statements_of(items):
                if isinstance(one, Definition) and not one.variable.is_index:
                    self.group_of[one.variable] = self.groups
                for expression in parts_of(one):
                    for part in walk(expression):
                        if (
                            isinstance(part, VariableUse)
                            and self.group_of.get(part.variable, self.groups) != self.groups
                        ):
                            variable = part.variable
                            self.kept.setdefault(variable, f"kspec_kept{len(self.kept)}")

    # ------------------------------------------------------------- regions

    def region(self, statements: Sequence[TreeStatement]) -> Iterator[str]:
        """Write statements in which all threads of a block take part."""
        seen = len(self.visible)
        for items, inner in _regions(statements):
            if inner is None:
                yield from self.group(items)
                continue
            (one,) = items
            if isinstance(one, Definition):
                if one.variable.is_uniform:
                    yield from self.index(one.variable)
                else:
                    self.visible.append(one.variable)
            elif isinstance(one, CountingLoop):
                yield from self.head(one)
                yield from self.region(one.body)
                yield "}"
            else:
                yield "{"
                yield from self.region(inner)
                yield "}"
        del self.visible[seen:]

    def group(self, statements: Sequence[TreeStatement]) -> Iterator[str]:
        """Write one loop over the threads."""
        yield "for (unsigned kspec_z = 0; kspec_z < blockDim.z; ++kspec_z)"
        yield "for (unsigned kspec_y = 0; kspec_y < blockDim.y; ++kspec_y)"
        yield "for (unsigned kspec_x = 0; kspec_x < blockDim.x; ++kspec_x) {"
        yield "const uint3 threadIdx = {kspec_x, kspec_y, kspec_z};"
        if any(_may_take_long(one) for one in statements_of(statements)):
            yield "kspec_run.begin_thread(threadIdx);"
        for variable in self.visible:
            yield from self.index(variable)
        used = {
            part.variable: None
            for one in statements_of(statements)
            for expression in parts_of(one)
            for part in walk(expression)
            if isinstance(part, VariableUse)
        }
        declared = {
            one.variable: None for one in statements_of(statements) if isinstance(one, Definition)
        }
        for variable in self.kept:
            if variable in used or variable in declared:
                rank = "kspec_x + blockDim.x * (kspec_y + blockDim.y * kspec_z)"
                yield f"{variable.type}& {variable.name} = {self.kept[variable]}[{rank}];"
        for one in statements:
            yield from self.statement(one)
        yield "}"

    def index(self, variable: KernelVariable) -> Iterator[str]:
        """Write an integer in its own type, and in 64 bits."""
        assert variable.initial is not None
        yield f"const {variable.type} {variable.name} = {narrow(variable.initial)};"
        yield f"const long long kspec_wide_{variable.name} = {wide(variable.initial)};"

    def head(self, loop: CountingLoop) -> Iterator[str]:
        name = loop.variable.name
        yield self.line_of(loop.place)
        yield f"for ({loop.variable.type} {name} = {narrow(loop.first)};"
        yield f"{name} {loop.comparison} {narrow(loop.bound)};"
        yield f"{name} {loop.change} {narrow(loop.step)}) {{"
        yield f"const long long kspec_wide_{name} = {name};"

    # ------------------------------------------------------------- statements

    def statement(self, statement: TreeStatement) -> Iterator[str]:
        match statement:
            case Definition(variable, place):
                yield self.line_of(place)
                yield from self.declaration(variable)
            case Assignment(target, operator, value, place):
                yield self.line_of(place)
                yield f"{narrow(target)} {operator} {narrow(value)};"
            case Conditional(condition, then, otherwise, is_guard, place):
                yield self.line_of(place)
                yield "{" if is_guard else f"if ({narrow(condition)}) {{"
                yield from self.all(then)
                yield "} else {" if otherwise else "}"
                if otherwise:
                    yield from self.all(otherwise)
                    yield "}"
            case CountingLoop():
                yield from self.head(statement)
                yield from self.all(statement.body)
                yield "}"
            case Braces(body):
                yield "{"
                yield from self.all(body)
                yield "}"

    def all(self, statements: Sequence[TreeStatement]) -> Iterator[str]:
        for one in statements:
            yield from self.statement(one)

    def declaration(self, variable: KernelVariable) -> Iterator[str]:
        if variable.is_index:
            yield from self.index(variable)
        elif variable in self.kept:
            if variable.initial is not None:
                yield f"{variable.name} = {narrow(variable.initial)};"
        else:
            value = "" if variable.initial is None else f" = {narrow(variable.initial)}"
            yield f"{variable.type} {variable.name}{value};"


def _regions(
    statements: Sequence[TreeStatement],
) -> Iterator[tuple[Sequence[TreeStatement], Sequence[TreeStatement] | None]]:
    """Split at barriers: yield the statements of a loop with None, and others one by one.

    The others are indices, and statements with barriers inside; the latter come with their bodies.
    """
    group: list[TreeStatement] = []
    for one in statements:
        if isinstance(one, MeetingPoint):
            if group:
                yield group, None
            group = []
        elif isinstance(one, Definition) and one.variable.is_index:
            yield [one], ()
        elif has_barrier(one):
            if group:
                yield group, None
            group = []
            yield [one], one.then if isinstance(one, Conditional) else one.body  # type: ignore[union-attr]
        else:
            group.append(one)
    if group:
        yield group, None


def _may_take_long(statement: TreeStatement) -> bool:
    """Return whether somebody may stop the kernel in a loop and ask which thread it was in."""
    return isinstance(statement, CountingLoop) and not all(
        isinstance(part, NumberLiteral) for part in statement.parts
    )
