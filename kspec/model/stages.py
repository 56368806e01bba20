"""The values that pass between the stages of the pipeline: frozen, standard library only.

::

    Specialization --render--> CudaSource --compile(Target)--> Image --load--> kernel

`Specialization` says which kernel, with which types and layout; `CudaSource` is everything a
compiler needs; `Image` is everything a loader needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from kspec.dataclass import dataclass
from kspec.model import dtypes

# Schedules: tags of ``kspec/layout.cuh``. Any layout can be strided, with up
# to so many collapsed axes; precompiled kernels have the first capacity.
FLAT, ROWS = "kspec::Flat", "kspec::Rows"
PACKS, TILES = "kspec::Packs", "kspec::Tiles"
LINES, SHORT_LINES, COLUMNS = "kspec::Lines", "kspec::ShortLines", "kspec::Columns"
STRIDED_AXES = (8, 64)
MAX_AXES = 4  # along which a kernel has windows
MAX_NDIM = STRIDED_AXES[-1]  # of an array argument; NumPy has no more either


def strided_capacity(ndim: int) -> int:
    """Return the smallest capacity that holds `ndim` collapsed axes."""
    return next(capacity for capacity in STRIDED_AXES if ndim <= capacity)


def strided(ndim: int) -> str:
    """Return the smallest strided layout that holds `ndim` collapsed axes.

    >>> strided(3)
    'kspec::Strided<8>'
    """
    return f"kspec::Strided<{strided_capacity(ndim)}>"


def windowed(axes: int, ndim: int, chosen: bool = False) -> str:
    """Return the smallest layout of kernels with windows.

    Parameters
    ----------
    axes : int
        Windowed axes.
    ndim : int
        Collapsed axes before them.
    chosen : bool
        Whether the call has chosen another boundary than a window's first.

    Examples
    --------
    >>> windowed(2, 1), windowed(2, 1, chosen=True)
    ('kspec::Windows<2, 8>', 'kspec::ChosenBoundary<2, 8>')
    """
    tag = "ChosenBoundary" if chosen else "Windows"
    return f"kspec::{tag}<{axes}, {strided_capacity(ndim)}>"


def items(ndim: int) -> str:
    """Return the smallest layout of kernels with core dimensions that holds `ndim` collapsed axes.

    >>> items(1)
    'kspec::Items<8>'
    """
    return f"kspec::Items<{strided_capacity(ndim)}>"


def groups(ndim: int, threads: int) -> str:
    """Return the smallest such layout in which a group of threads has each item.

    >>> groups(1, 32)
    'kspec::Groups<8, 32>'
    """
    return f"kspec::Groups<{strided_capacity(ndim)}, {threads}>"


def sweep(swept: int) -> str:
    """Return the layout of pairwise reductions; `swept` has a bit for each input that is swept.

    >>> sweep(2)
    'kspec::Sweep<2>'
    """
    return f"kspec::Sweep<{swept}>"


def scan_lines(ndim: int) -> str:
    """Return the smallest layout of scans that holds `ndim` collapsed axes beside the scanned one.

    It takes elements in tiles that follow each other, `scan_columns` neighbouring rows side by
    side.

    >>> scan_lines(1)
    'kspec::ScanLines<8>'
    """
    return f"kspec::ScanLines<{strided_capacity(ndim)}>"


def scan_columns(ndim: int) -> str:
    """Return the smallest layout of scans of neighbouring rows; see `scan_lines`."""
    return f"kspec::ScanColumns<{strided_capacity(ndim)}>"


def scan_walks(ndim: int) -> str:
    """Return the smallest layout of scans of many neighbouring rows; see `scan_lines`.

    Each block has all elements of its rows.
    """
    return f"kspec::ScanWalks<{strided_capacity(ndim)}>"


def scan_waves(ndim: int) -> str:
    """Return the smallest layout of long scans of contiguous rows; see `scan_lines`.

    It takes such tiles by blocks that stay.
    """
    return f"kspec::ScanWaves<{strided_capacity(ndim)}>"


def segment_lines(ndim: int) -> str:
    """Return the smallest layout of segments, of a single column, with `ndim` collapsed axes.

    It takes elements in tiles that follow each other, `segment_columns` neighbouring columns side
    by side.

    >>> segment_lines(0)
    'kspec::SegmentLines<8>'
    """
    return f"kspec::SegmentLines<{strided_capacity(ndim)}>"


def segment_columns(ndim: int) -> str:
    """Return the smallest layout of segments of neighbouring columns; see `segment_lines`."""
    return f"kspec::SegmentColumns<{strided_capacity(ndim)}>"


def key_cells(ndim: int) -> str:
    """Return the smallest layout of reductions by key that holds `ndim` collapsed axes of columns.

    All threads update the accumulators of keys; with `key_runs`, `key_groups` and `key_sorted`
    elements keep their order.

    >>> key_cells(0)
    'kspec::KeyCells<8>'
    """
    return f"kspec::KeyCells<{strided_capacity(ndim)}>"


def key_runs(ndim: int) -> str:
    """Return the smallest layout of reductions to few keys in the order of elements."""
    return f"kspec::KeyRuns<{strided_capacity(ndim)}>"


def key_groups(ndim: int) -> str:
    """Return the smallest layout of reductions to many keys, of some elements each, in their order.

    Rows are grouped by key; see `key_cells`.
    """
    return f"kspec::KeyGroups<{strided_capacity(ndim)}>"


def key_sorted(ndim: int) -> str:
    """Return the smallest layout of reductions to many keys in the order of elements.

    Rows are sorted by key; see `key_cells`.
    """
    return f"kspec::KeySorted<{strided_capacity(ndim)}>"


def key_bins(ndim: int) -> str:
    """Return the smallest layout of reductions to few keys by known operations; see `key_cells`.

    Each thread has accumulators of all keys.
    """
    return f"kspec::KeyBins<{strided_capacity(ndim)}>"


def rolling(axes: int, ndim: int) -> str:
    """Return the smallest layout of windows that slide along so many of `ndim` axes.

    >>> rolling(1, 3)
    'kspec::Rolling<8, 1>'
    """
    return f"kspec::Rolling<{strided_capacity(ndim)}, {axes}>"


def to_aggregates(layout: str) -> str:
    """Return the layout of reductions to accumulators, which are not outputs yet."""
    return f"kspec::ToAggregates<{layout}>"


def from_aggregates(layout: str) -> str:
    """Return the layout of reductions of such accumulators.

    >>> to_aggregates(from_aggregates(strided(1)))
    'kspec::ToAggregates<kspec::FromAggregates<kspec::Strided<8>>>'
    """
    return f"kspec::FromAggregates<{layout}>"


def continued(layout: str) -> str:
    """Return the layout of scans that go on from such accumulators.

    >>> continued(scan_lines(1))
    'kspec::Continued<kspec::ScanLines<8>>'
    """
    return f"kspec::Continued<{layout}>"


def counting(layout: str) -> str:
    """Return one of the first two layouts for accumulators that count their elements.

    >>> counting(from_aggregates(strided(1)))
    'kspec::Counting<kspec::FromAggregates<kspec::Strided<8>>>'
    """
    return f"kspec::Counting<{layout}>"


# Layouts of arrays in several places.
STAGES = (to_aggregates, from_aggregates, continued, counting)


def is_of_aggregates(layout: str) -> bool:
    """Return whether a layout is one of those."""
    return layout.startswith(tuple(stage("")[:-1] for stage in STAGES))


def pack_size(widths: Iterable[int]) -> int:
    """Return the number of elements of an operand that a thread takes at once: ``kspec::PackSize``.

    As many of the widest as fill a 16-byte access; 1 if one of them does not divide it evenly.
    """
    sizes = set(widths)
    return 16 // max(sizes) if sizes and sizes <= {1, 2, 4, 8} else 1


@dataclass(frozen=True)
class Specialization:
    """A generated kernel with every placeholder bound and its layout fixed.

    Attributes
    ----------
    kernel : str
        Name of the kernel.
    binding : tuple of (str, str)
        Placeholder and canonical dtype name, in the declaration's order.
    layout : str
        C++ tag of the layout, such as ``kspec::Flat``: all operands contiguous alike.
    raw_ndims : tuple of int
        Dimensions of each ``raw`` argument, then of each ``_raw_<name>``, in the declaration's
        order.
    sizes : tuple of (str, int)
        Integer placeholders and their values, in the declaration's order.

    Examples
    --------
    >>> Specialization("l2norm", (("T", "float32"),), strided(2)).name_expression
    'l2norm<float, kspec::Strided<8>>'
    """

    kernel: str
    binding: tuple[tuple[str, str], ...] = ()
    layout: str = FLAT
    raw_ndims: tuple[int, ...] = ()
    sizes: tuple[tuple[str, int], ...] = ()

    @property
    def name_expression(self) -> str:
        """The C++ template specialization the source is asked for."""
        arguments = [dtypes.lookup(dtype).ctype for _, dtype in self.binding]
        arguments += [self.layout, *map(str, self.raw_ndims)]
        arguments += [str(value) for _, value in self.sizes]
        return f"{self.kernel}<{', '.join(arguments)}>"


@dataclass(frozen=True)
class RawSymbol:
    """A kernel of the user's own source, by name or name expression."""

    name_expression: str
    binding: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Target:
    """Target of a compilation.

    Attributes
    ----------
    arch : str
        ``"sm_90"`` (cubin), ``"compute_80"`` (PTX), ``"lto_90"`` (LTO-IR, which a linker makes code
        of) or ``"host"`` (a shared object).
    sanitize : tuple of str
        Checking modes to instrument for, sorted (`kspec.model.checks`); only for ``"host"``.
    ptx_isa : str
        Newest version of the language that PTX may be in, such as ``"8.0"``; empty: any.
    via : str
        Architecture of the PTX that a cubin is assembled from, such as ``"compute_90"``; empty: its
        own (`kspec.compiler.family`).
    """

    arch: str
    sanitize: tuple[str, ...] = ()
    ptx_isa: str = ""
    via: str = ""

    @property
    def format(self) -> str:
        """``"cubin"``, ``"ptx"``, ``"ltoir"`` or ``"so"``."""
        formats = {"host": "so", "compute": "ptx", "lto": "ltoir"}
        return formats.get(self.arch.partition("_")[0], "cubin")

    @property
    def is_host(self) -> bool:
        """Whether this is the CPU."""
        return self.arch == "host"

    def __str__(self) -> str:
        isa = f"@{self.ptx_isa}" * bool(self.ptx_isa)
        return "+".join([self.arch, *self.sanitize]) + isa + f" via {self.via}" * bool(self.via)

    @property
    def ptx(self) -> str:
        """Architecture of the PTX that a cubin is made of: ``"compute_80"`` for ``"sm_80"``."""
        return self.via or self.arch.replace("sm_", "compute_")


HOST = Target("host")


@dataclass(frozen=True)
class Header:
    """A header that travels with a source, under the name it is included by."""

    name: str
    text: str


@dataclass(frozen=True)
class CudaSource:
    """CUDA C++ text plus everything that compiling it needs.

    Attributes
    ----------
    name : str
        File name for messages, relative: ``"norms.cu"``.
    text : str
        The translation unit, with ``#line`` directives back to the spec.
    name_expressions : tuple of str
        Kernels to instantiate and keep.
    headers : tuple of Header
        Text of every header of ours or the user's that it includes, at any depth.
    options : tuple of str
        The user's compiler options (``-DX=1``, ``-I...``), never those of the target.
    backend : str
        What compiles it for GPUs: ``"nvrtc"`` or ``"nvcc"``; the host device has its own compiler.
    """

    name: str
    text: str
    name_expressions: tuple[str, ...] = ()
    headers: tuple[Header, ...] = ()
    options: tuple[str, ...] = ()
    backend: str = "nvrtc"


@dataclass(frozen=True)
class Figures:
    """Resources one kernel uses, as the compiler reports them; -1 where it does not say."""

    registers: int = -1
    shared_bytes: int = -1
    local_bytes: int = -1
    constant_bytes: int = -1
    spill_bytes: int = -1
    code_bytes: int = -1


@dataclass(frozen=True)
class MachineCode:
    """A cubin with line tables, its architecture, and the symbol of one of its kernels."""

    cubin: bytes = field(repr=False)
    arch: str
    symbol: str


@dataclass(frozen=True)
class Image:
    """Compiled code and the names in it.

    Attributes
    ----------
    format : str
        ``"cubin"``, ``"ptx"``, ``"fatbin"`` or ``"so"``.
    arch : str
        What it was compiled for; for a fatbin its members, joined by commas.
    code : bytes
        The bytes a loader takes.
    symbols : mapping of str to str
        Name expression to lowered name.
    figures : mapping of str to Figures
        Name expression to resources.
    log : str
        What the compiler said (warnings).
    """

    format: str
    arch: str
    code: bytes = field(repr=False)
    symbols: Mapping[str, str]
    figures: Mapping[str, Figures] = field(default_factory=dict)
    log: str = ""
