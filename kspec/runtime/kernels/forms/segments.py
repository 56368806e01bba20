"""Calling a reduction kernel for segments: bounds, binding, outputs, schedule, launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kspec.errors import shorten
from kspec.model.forms.kinds import SEGMENTS
from kspec.runtime.arguments.binding import Call, Operand, check_count
from kspec.runtime.callcache.prepared import Prepared
from kspec.runtime.driver.launch import NO_OPTIONS, LaunchOptions
from kspec.runtime.kernels import CALL_ERRORS
from kspec.runtime.kernels.folding import FoldingCallable
from kspec.runtime.kernels.forms.indices import check_beside
from kspec.runtime.libraries.untraced import untraced
from kspec.runtime.schedules import Axes

if TYPE_CHECKING:
    from kspec.runtime.schedules.scan_schedule import ScanSchedule


class SegmentsCallable(FoldingCallable):
    """A reduction kernel that can reduce segments."""

    @untraced
    def segments(
        self,
        *args: Any,
        indptr: Any = None,
        out: Any = None,
        stream: Any = None,
        sanitize: str | None = None,
        order: str | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Reduce segments of the first axis, such as the rows of a sparse matrix.

        Segment k has the elements from ``indptr[k]`` up to ``indptr[k + 1]``, in their order. The
        reduce expression has to be associative, it need not be commutative. Equal calls give equal
        bits.

        Parameters
        ----------
        *args : arrays or scalars
            The inputs, and then ``indptr`` unless it is given by keyword. Inputs broadcast against
            each other.
        indptr : array
            A sorted array of integers, one more than there are segments, from 0 to the extent of
            the first axis. Elements before the first bound and behind the last one belong to no
            segment. Bounds that are not sorted are a fault on the host device, and make wrong
            outputs on a GPU.
        out : array or tuple of arrays, optional
            The outputs, one for each declared.
        stream : stream, optional
            Default: the current stream of the first array's library.
        sanitize, order, timeout : optional
            What to check on the host device (`kspec.Checks`); default: as the kernel's `checks`,
            `kspec.checking` or the environment say.

        Returns
        -------
        array or tuple of arrays
            The outputs, of the kind of the first array; their first axis has a segment for each
            element, the others are those of the inputs. An empty segment is made of the identity.
            The map sees the number of the segment as ``_segment``, and the post-map, as
            ``_in_ind.size() / _out_ind.size()``, how many elements the segment has.

        Raises
        ------
        ArgumentTypeError
            A `TypeError`: wrong number of arguments, wrong dtype, arrays on several devices.
        ShapeError
            A `ValueError`: shapes do not fit, or the kernel has no identity.
        NotSupportedError
            The expressions read ``_raw_<name>`` or an indexer.
        SpecializationNotBuilt
            Nothing precompiled fits and ``KSPEC_JIT=never``.
        """
        try:
            if indptr is not None:
                args = self.with_bounds(args, indptr)
            given = self.all_given(args, out, indices=1)
            if sanitize is None and order is None and timeout is None:
                cached = self._cached(SEGMENTS, given)
                if cached is not None and given is not None:
                    return cached(self, *given, *self._absent[len(given) :], stream)
            options = LaunchOptions(stream, sanitize=sanitize, order=order, timeout=timeout)
            prepared = self.prepare_segments(args, out, options)
            return self._run_form(SEGMENTS, prepared, given, (), indices=1)
        except CALL_ERRORS as error:
            shorten(error)
            raise

    def with_bounds(self, args: tuple[Any, ...], indptr: Any) -> tuple[Any, ...]:
        """Return positional arguments with the bounds that are given by keyword among them.

        Raises
        ------
        ArgumentTypeError
            If there is a wrong number of others.
        """
        if indptr is None:
            return args
        check_count(self.declaration, args, ".segments", beside=" beside indptr")
        nin = len(self.declaration.inputs)
        return (*args[:nin], indptr, *args[nin:])

    def prepare_segments(
        self, args: Sequence[Any], out: Any = None, options: LaunchOptions = NO_OPTIONS
    ) -> Prepared:
        """Check a call, with parameters and errors as those of `segments`, and make its outputs.

        The outputs may be behind the bounds, too.
        """
        from kspec.model.forms.outputs import infer_segments
        from kspec.runtime.schedules.segment_schedule import BOUNDS

        declaration = self.declaration
        call, bounds = self.with_indices(args, out, SEGMENTS, "indptr")
        given = bool(call.outputs)
        inputs, outputs = call.types()
        inferred = infer_segments(declaration, inputs, bounds.abstract, outputs)
        shape, binding = inferred.loop, inferred.binding
        call = self.with_outputs(call, inferred.shapes, binding)
        check_beside(self.__name__, (*call.inputs, bounds), call.outputs if given else ())

        def choose(call: Call, modes: tuple[str, ...]) -> ScanSchedule:
            def axes(looped: Sequence[Operand]) -> tuple[Axes, tuple[int, ...]]:
                return self.rows_of(looped, call.outputs, shape, inferred.shape)

            return self.schedule_segments(call, bounds, shape[0], axes, binding, modes)

        return self._prepare_form(
            call, inferred, given, options, choose, indices=bounds, place=BOUNDS
        )
