"""A program in words: its kernels, what they read and write, and why there are so many."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from kspec.errors import counted
from kspec.fusion.graph import Input, Node, Scalar, View
from kspec.fusion.lower import LoweredKernel
from kspec.fusion.partition import ElementwiseGroup, Output
from kspec.fusion.program import FusedProgram
from kspec.fusion.rows import RowProgram
from kspec.model import dtypes


def explain(program: FusedProgram, names: Sequence[str], by_rows: str = "") -> str:
    """Return a description of a program, in lines of 80 columns.

    Parameters
    ----------
    program : FusedProgram
        What is described; bytes are for the extents that it was traced with.
    names : sequence of str
        Of the function's arguments.
    by_rows : str, optional
        Which devices run its program of rows; default: none.
    """
    lines = [counted(len(program.all_kernels), "kernel")]
    if program.rows is not None and by_rows:
        lines = [*_rows(program.rows, names, by_rows), f"elsewhere {lines[0]}"]
    number = itertools.count(1)
    shown = list(names)  # of the phases' reads, where the arguments come first
    for phase in program.phases:
        copies = [
            f"a copy of {name}" if place in phase.copied and place != phase.target else name
            for place, name in enumerate(shown)
        ]
        lines += _kernels(phase.program, copies, number)
        written, *others = (names[position] for position in phase.renewed)
        lines.append(f"   one write at a time: {written} shares memory with {', '.join(others)}")
        for place in phase.copied:
            shown[place] = f"a copy of {shown[place]}"
        shown += [names[position] for position in phase.renewed]
    lines += _kernels(program, shown, number)
    if program.shaped:
        lines.append("for these extents only: the function asks for them, or slices or reshapes")
    return "\n".join(lines)


def _kernels(program: FusedProgram, names: Sequence[str], numbers: Iterator[int]) -> list[str]:
    lines: list[str] = []
    for kernel, group in zip(program.kernels, program.partition.groups, strict=True):
        kind = (
            "elementwise"
            if isinstance(group, ElementwiseGroup)
            else f"{'scan along' if kernel.is_scan else 'reduction over'} axes {kernel.axes}"
        )
        lines.append(f"{next(numbers)}. {kernel.spec.name}: {kind}")
        reads = [one for one in kernel.reads if not isinstance(one, Scalar)]
        lines += _read(reads, names)
        lines += _written(kernel.writes, names)
        reason = _reason(program, kernel)
        if reason:
            lines.append(f"   {reason}")
    return lines


def _rows(rows: RowProgram, names: Sequence[str], where: str) -> list[str]:
    row = " x ".join(str(size) for size in rows.domain.sizes[-rows.axes :])
    lines = [f"1 kernel on {where}:", f"   {rows.name}, rows of {row} elements kept in registers"]
    lines += _read([one for one, _ in rows.reads], names)
    lines += _written([one for one, _ in rows.writes], names)
    return lines


def _read(values: Sequence[Node], names: Sequence[str]) -> list[str]:
    return _listed("reads", [f"{_name(one, names)} {_size(one)}" for one in values])


def _written(outputs: Sequence[Output], names: Sequence[str]) -> list[str]:
    texts = []
    for one in outputs:
        text = _name(one.value, names)
        if one.part is not None:
            text = f"part {one.part[1]} of {_name(one.part[0], names)}"
        if one.target is not None and one.target < len(names):
            text = f"{names[one.target]}, in place"
        texts.append(f"{text} {_size(one.value)}")
    return _listed("writes", texts)


def _listed(verb: str, texts: Sequence[str]) -> list[str]:
    return [f"   {verb if not k else '':<6} {text}" for k, text in enumerate(texts or ["nothing"])]


def _name(value: Node, names: Sequence[str]) -> str:
    source = value.input if isinstance(value, View) else value
    if isinstance(source, Input) and source.position < len(names):
        return names[source.position]
    text = value.describe(8)  # more than fit into 30 letters
    return text if len(text) <= 30 else f"{text[:27]}..."


def _size(value: Node) -> str:
    number = dtypes.lookup(value.dtype).itemsize
    for size in value.sizes:
        number *= size
    return f"({value.dtype} {list(value.sizes)}, {number:,} bytes)"


def _reason(program: FusedProgram, kernel: LoweredKernel) -> str:
    made = {one.value for other in program.kernels for one in other.writes}
    needs = [
        one for one in kernel.reads if program.partition.producer(one) is not None and one in made
    ]
    if needs:
        return "begins when a reduction over all elements of an output has ended"
    return ""
