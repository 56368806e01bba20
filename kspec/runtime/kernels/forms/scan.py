"""Calling a reduction kernel as a scan: axes, binding, outputs, schedule, launch."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kspec.dataclass import dataclass
from kspec.errors import shorten
from kspec.model.forms.kinds import SCAN
from kspec.model.shapes import flag
from kspec.model.stages import continued
from kspec.runtime.arguments.binding import Call, Operand, check_count, classify
from kspec.runtime.callcache.prepared import Prepared
from kspec.runtime.driver.device import gpu_of
from kspec.runtime.driver.launch import NO_OPTIONS, LaunchOptions
from kspec.runtime.kernels import CALL_ERRORS
from kspec.runtime.kernels.folding import FoldingCallable
from kspec.runtime.kernels.loop_nest import member_of
from kspec.runtime.libraries.untraced import untraced

if TYPE_CHECKING:
    from kspec.runtime.schedules.scan_schedule import ScanSchedule

_OPTIONS = ("axis", "exclusive", "reverse")
# Offset of the address of the accumulators in the plan of a scan that goes on from a carry.
CARRIES = 16


@dataclass(frozen=True)
class ScanCarry:
    """Accumulators of the elements before those of a scan.

    Attributes
    ----------
    accumulators : Operand
        One for each row, in C order.
    elements : int
        How many elements of a row these are made of.
    """

    accumulators: Operand
    elements: int

    def before(self, schedule: ScanSchedule, rows: int, length: int) -> ScanSchedule:
        """Return the schedule of a scan of so many rows that goes on here: ``kspec::Continued``."""
        view = self.accumulators.view
        assert view is not None
        head = struct.pack("2qPq", rows, length, view.ptr, self.elements)
        return replace(schedule, layout=continued(schedule.layout), head=head + schedule.head)


class ScanCallable(FoldingCallable):
    """A reduction kernel whose elements can be scanned."""

    @untraced
    def scan(
        self,
        *args: Any,
        out: Any = None,
        axis: int = -1,
        exclusive: bool = False,
        reverse: bool = False,
        stream: Any = None,
        sanitize: str | None = None,
        order: str | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Reduce each element with all before it along an axis, as ``np.add.accumulate``.

        The reduce expression has to be associative; elements keep their order, so it need not be
        commutative. Equal calls give equal bits.

        Parameters
        ----------
        *args : arrays or scalars
            The inputs, or the inputs and all outputs. Inputs broadcast against each other.
        out : array or tuple of arrays, optional
            The outputs, one for each declared; instead of positional ones. An output may be an
            input, which is overwritten then.
        axis : int, default -1
            The axis.
        exclusive : bool, default False
            Reduce the elements before each one without itself; the first output along the axis is
            made of the identity.
        reverse : bool, default False
            Begin at the end of the axis: each element is reduced with those behind it, the last
            one first.
        stream : stream, optional
            Default: the current stream of the first array's library.
        sanitize, order, timeout : optional
            What to check on the host device (`kspec.Checks`); default: as the kernel's `checks`,
            `kspec.checking` or the environment say.

        Returns
        -------
        array or tuple of arrays
            The outputs, of the kind of the first array and of the shape that the inputs broadcast
            to. The post-map sees, as ``_in_ind.size() / _out_ind.size()``, how many elements an
            output has.

        Raises
        ------
        ArgumentTypeError
            A `TypeError`: wrong number of arguments, wrong dtype, arrays on several devices,
            `exclusive` or `reverse` is not a bool.
        ShapeError
            A `ValueError`: shapes do not fit, or an exclusive scan without an identity.
        NotSupportedError
            The expressions read ``_raw_<name>`` or an indexer.
        numpy.exceptions.AxisError
            The axis is out of range.
        SpecializationNotBuilt
            Nothing precompiled fits and ``KSPEC_JIT=never``.
        """
        try:
            given = self.all_given(args, out)
            plain = (
                sanitize is None
                and order is None
                and timeout is None
                and type(axis) is int
                and type(exclusive) is type(reverse) is bool
            )
            if plain and (cached := self._cached(SCAN, given)) is not None:
                assert given is not None
                places = (*given, *self._absent[len(given) :])
                return cached(self, *places, axis, exclusive, reverse, stream)
            options = LaunchOptions(stream, sanitize=sanitize, order=order, timeout=timeout)
            prepared = self.prepare_scan(args, axis, exclusive, reverse, out, options)
            return self._run_form(SCAN, prepared, given, _OPTIONS)
        except CALL_ERRORS as error:
            shorten(error)
            raise

    def prepare_scan(
        self,
        args: Sequence[Any],
        axis: int = -1,
        exclusive: bool = False,
        reverse: bool = False,
        out: Any = None,
        options: LaunchOptions = NO_OPTIONS,
        carry: ScanCarry | None = None,
    ) -> Prepared:
        """Check a scan, with parameters and errors as those of `scan`, and make its outputs.

        `carry`: accumulators of the elements before; default: there are none.
        """
        from kspec.model.forms.outputs import infer_scan
        from kspec.runtime.schedules.scan_schedule import Scanned, choose_scan

        declaration = self.declaration
        given = out is not None or len(args) > len(declaration.inputs)
        check_count(declaration, args, ".scan")
        exclusive = flag(self.__name__, "exclusive", exclusive)
        reverse = flag(self.__name__, "reverse", reverse)
        call = classify(declaration, args, self.given_outputs(args, out))
        self.check_scalars(call)
        inferred = infer_scan(declaration, *call.types(), axis=axis, exclusive=exclusive)
        shape, binding = inferred.loop, inferred.binding
        (along,) = inferred.reduced
        call = self.with_outputs(call, inferred.shapes, binding)

        def choose(call: Call, modes: tuple[str, ...]) -> ScanSchedule:
            looped = [operand for operand in call.inputs if not operand.param.raw]
            ordered = declaration.ordered or carry is not None
            rows, steps = self.axes_beside(looped, call.outputs, shape, along, ordered)
            schedule = choose_scan(
                Scanned(rows, shape[along], steps, exclusive, reverse, declaration.loads_outputs),
                [member_of(operand, binding) for operand in (*looped, *call.outputs)],
                lambda: self.accumulator_size(call, binding, modes),
                gpu_of(call.device),
            )
            return schedule if carry is None else carry.before(schedule, rows.size, shape[along])

        if carry is None:
            return self._prepare_form(call, inferred, given, options, choose)
        return self._prepare_form(
            call, inferred, given, options, choose, indices=carry.accumulators, place=CARRIES
        )
