"""The registers of the shipped kernels, as a table that is committed and reviewed.

::

    nvrtc V13.0.88 CL-36424714            sm_80    sm_90
    norms.l2norm<float, Lines>               38       40
    norms.l2norm<float, Columns>           40+8       40

``40+8`` are 40 registers and 8 bytes of local memory: registers that were spilled, or arrays.
``pytest --update-golden`` writes what the manifest says now; review the diff.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kspec.manifest import Manifest

TABLE = Path(__file__).parent / "golden" / "registers.txt"


@dataclass(frozen=True, order=True)
class Use:
    """What one kernel takes on one architecture."""

    registers: int
    local_bytes: int

    def __str__(self) -> str:
        return f"{self.registers}+{self.local_bytes}" if self.local_bytes else str(self.registers)

    @staticmethod
    def parse(text: str) -> Use:
        registers, _, local_bytes = text.partition("+")
        return Use(int(registers), int(local_bytes or 0))


@dataclass(frozen=True)
class Registers:
    """Everything that one compiler made.

    Attributes
    ----------
    compiler : str
        Its exact version.
    archs : tuple of str
        Columns.
    uses : dict
        By kernel, with layout and types, then in the order of `archs`.
    """

    compiler: str
    archs: tuple[str, ...]
    uses: dict[str, tuple[Use, ...]]

    def __str__(self) -> str:
        width = max(map(len, [self.compiler, *self.uses]))
        lines = [f"{self.compiler:{width}}" + "".join(f"{arch:>9}" for arch in self.archs)]
        for name, uses in self.uses.items():
            lines.append(f"{name:{width}}" + "".join(f"{use!s:>9}" for use in uses))
        return "\n".join(lines) + "\n"


def parse_registers(text: str) -> Registers:
    """Return the table of a text; the opposite of ``str``."""
    head, *rows = text.splitlines()
    archs = tuple(word for word in head.split() if word.startswith("sm_"))
    compiler = head[: head.index(archs[0])].strip()
    uses = {}
    for row in rows:
        name, *cells = row.rsplit(None, len(archs))
        uses[name] = tuple(map(Use.parse, cells))
    return Registers(compiler, archs, uses)


def registers_of(manifest: Manifest) -> Registers:
    """Return what a manifest says."""
    images = [(module.stem, module.image) for module in manifest.modules if module.image]
    archs = tuple(arch for arch in images[0][1].archs if arch.startswith("sm_"))
    (compiler,) = {image.compiler for _, image in images}
    uses = {}
    for stem, image in images:
        for name in image.figures[archs[0]]:
            figures = [image.figures[arch][name] for arch in archs]
            uses[f"{stem}.{name.replace('kspec::', '')}"] = tuple(
                Use(one.registers, one.local_bytes) for one in figures
            )
    return Registers(compiler, archs, uses)


def growth(recorded: Registers, now: Registers) -> Iterator[str]:
    """Yield a line for each figure that is larger than the recorded one.

    What another compiler makes of the same text says nothing, but for memory where there was none.
    """
    same = recorded.compiler == now.compiler
    for name, uses in now.uses.items():
        before = recorded.uses.get(name, ())
        for arch, use in zip(now.archs, uses, strict=True):
            known = dict(zip(recorded.archs, before, strict=False)).get(arch)
            if known is None:
                yield f"{arch} {name}: {use}, nothing recorded"
                continue
            grown = use.registers > known.registers or use.local_bytes > known.local_bytes
            if (same and grown) or (use.local_bytes and not known.local_bytes):
                yield f"{arch} {name}: {use}, recorded {known}"
