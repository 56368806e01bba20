"""Functions that Dask's tasks of forms of reductions call: blocks in, blocks out; no Dask.

As those of `kspec.dask.blocks`, they are small, picklable, and hold names of kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kspec.dask.blocks import Extended, filled
from kspec.dataclass import dataclass
from kspec.model.forms.sliding import WindowPiece
from kspec.runtime.kernels.forms.stages import FormStages, stages_of
from kspec.runtime.kernels.identity import Identity
from kspec.runtime.kernels.partials import Partial
from kspec.runtime.kernels.reduction import ReductionCallable


@dataclass(frozen=True)
class _FormTask:
    """Base of calls on blocks.

    Attributes
    ----------
    identity : Identity
        The kernel.
    rest : tuple
        Its inputs; `Placeholder.BLOCK` where a block belongs.
    """

    identity: Identity
    rest: tuple[Any, ...]

    @property
    def kernel(self) -> ReductionCallable:
        """The kernel of this process."""
        kernel = self.identity.kernel()
        assert isinstance(kernel, ReductionCallable)
        return kernel

    @property
    def stages(self) -> FormStages:
        """The stages of its forms."""
        return stages_of(self.kernel)


@dataclass(frozen=True)
class AggregateTask(_FormTask):
    """Elements of a block along an axis, some or all, reduced to accumulators in order."""

    axis: int
    taken: tuple[int, int] | None = None
    reverse: bool = False

    def __call__(self, *blocks: Any) -> Partial:
        """Return the accumulators of a block."""
        args = filled(self.rest, blocks)
        return self.stages.aggregate(args, self.axis, self.taken, self.reverse)


@dataclass(frozen=True)
class JoinTask(_FormTask):
    """Accumulators of several blocks, joined in order."""

    def __call__(self, *partials: Partial) -> Partial:
        """Return one partial."""
        return self.stages.join(partials, filled(self.rest))


@dataclass(frozen=True)
class ScanTask(_FormTask):
    """A scan of a block that goes on from the blocks before it."""

    axis: int
    exclusive: bool
    reverse: bool

    def __call__(self, carry: Partial | None, *blocks: Any) -> Any:
        """Return the block, or a tuple of them."""
        args = filled(self.rest, blocks)
        return self.stages.scan(args, self.axis, self.exclusive, self.reverse, carry)


@dataclass(frozen=True, eq=False)
class SegmentsTask(_FormTask):
    """The segments that begin in a block."""

    bounds: npt.NDArray[np.int64]

    def __call__(self, pieces: Sequence[Partial], *blocks: Any) -> Any:
        """Return the block, or a tuple of them, given all pieces of its last segment."""
        return self.stages.segments(filled(self.rest, blocks), self.bounds, pieces)


@dataclass(frozen=True)
class KeysTask(_FormTask):
    """The elements of each key of a block, reduced to accumulators.

    Attributes
    ----------
    n : int
        Number of outputs.
    deterministic : bool
        Whether elements keep their order.
    """

    n: int
    deterministic: bool

    def __call__(self, keys: Any, *blocks: Any) -> Partial:
        """Return the accumulators of a block."""
        args = filled(self.rest, blocks)
        return self.stages.aggregate_keys(args, keys, self.n, self.deterministic)


@dataclass(frozen=True)
class FinishKeysTask(_FormTask):
    """The outputs of keys."""

    def __call__(self, *partials: Partial) -> Any:
        """Return the block, or a tuple of them."""
        return self.stages.finish_keys(partials, filled(self.rest))


@dataclass(frozen=True)
class RollTask(_FormTask):
    """The windows at the elements of a block.

    Attributes
    ----------
    options : tuple of (str, object)
        Keywords of the call.
    pieces : tuple of WindowPiece
        Which windows.
    """

    options: tuple[tuple[str, Any], ...]
    pieces: tuple[WindowPiece, ...]

    def __call__(self, *blocks: Extended) -> Any:
        """Return the block, or a tuple of them."""
        args = filled(self.rest, tuple(one.array for one in blocks))
        return self.kernel.prepare_window(args, **dict(self.options), pieces=self.pieces).run()
