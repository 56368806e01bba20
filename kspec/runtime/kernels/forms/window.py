"""Calling a reduction kernel for sliding windows: axes, binding, outputs, schedule, launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kspec.errors import ArgumentTypeError, shorten
from kspec.model.forms.kinds import WINDOW
from kspec.runtime.arguments.binding import Call, check_count, classify
from kspec.runtime.callcache.prepared import Prepared
from kspec.runtime.driver.device import gpu_of
from kspec.runtime.driver.launch import NO_OPTIONS, LaunchOptions
from kspec.runtime.kernels import CALL_ERRORS
from kspec.runtime.kernels.folding import FoldingCallable, is_plain
from kspec.runtime.kernels.forms.indices import check_beside, gathered
from kspec.runtime.libraries.untraced import untraced
from kspec.runtime.schedules import broadcast_strides

if TYPE_CHECKING:
    from kspec.model.forms.sliding import WindowPiece
    from kspec.runtime.schedules.rolling_schedule import RollingSchedule

_OPTIONS = ("size", "axis", "boundary", "step")


class WindowCallable(FoldingCallable):
    """A reduction kernel that can reduce sliding windows."""

    @untraced
    def window(
        self,
        *args: Any,
        size: int | Sequence[int] | None = None,
        axis: int | Sequence[int] = -1,
        boundary: str = "valid",
        step: int | Sequence[int] = 1,
        out: Any = None,
        stream: Any = None,
        sanitize: str | None = None,
        order: str | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Reduce windows that slide along an axis: rolling aggregates, pooling.

        The elements of a window keep their order, so the reduce expression need not be
        commutative. Equal calls give equal bits.

        Parameters
        ----------
        *args : arrays or scalars
            The inputs, and then the size unless it is given by keyword. Inputs broadcast against
            each other.
        size : int or sequence of int
            Elements of a window along each axis.
        axis : int or sequence of int, default -1
            Axes along which windows slide, at most 4.
        boundary : {"valid", "nearest", "reflect", "mirror", "wrap", "shrink"}, default "valid"
            What lies beyond the ends of the axes. With "valid" all windows lie inside, and there
            are fewer outputs than elements. Otherwise windows are around each element,
            ``size // 2`` of whose elements are in front of it; elements beyond an end are those of
            `scipy.ndimage`, or, with "shrink", there are none.
        step : int or sequence of int, default 1
            Elements from one window to the next.
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
            The outputs, of the kind of the first array. The map sees the position in the window
            as ``_J``, and the post-map, as ``_in_ind.size() / _out_ind.size()``, how many elements
            the window has.

        Raises
        ------
        ArgumentTypeError
            A `TypeError`: wrong number of arguments, wrong dtype, arrays on several devices, an
            unknown boundary.
        ShapeError
            A `ValueError`: shapes do not fit, or a window is longer than its axis.
        NotSupportedError
            The expressions read ``_raw_<name>`` or an indexer.
        numpy.exceptions.AxisError
            An axis is out of range.
        SpecializationNotBuilt
            Nothing precompiled fits and ``KSPEC_JIT=never``.
        """
        try:
            if size is None:
                args, size = self.with_size(args)
            given = self.all_given(args, out)
            plain = sanitize is None and order is None and timeout is None
            if plain and is_plain(size) and is_plain(axis) and is_plain(step):
                cached = self._cached(WINDOW, given)
                if cached is not None and given is not None:
                    places = (*given, *self._absent[len(given) :])
                    return cached(self, *places, size, axis, boundary, step, stream)
            options = LaunchOptions(stream, sanitize=sanitize, order=order, timeout=timeout)
            prepared = self.prepare_window(args, size, axis, boundary, step, out, options)
            return self._run_form(WINDOW, prepared, given, _OPTIONS)
        except CALL_ERRORS as error:
            shorten(error)
            raise

    def with_size(self, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any]:
        """Return the inputs and the size of a call without ``size=``.

        Raises
        ------
        ArgumentTypeError
            If there is a wrong number of arguments.
        """
        nin = len(self._declaration.inputs)
        if len(args) != nin + 1:
            raise ArgumentTypeError(
                f"{self.__name__}.window() takes {nin + 1} positional arguments "
                f"({self._declaration.inputs}, size), not {len(args)}"
            )
        return args[:nin], args[nin]

    def prepare_window(
        self,
        args: Sequence[Any],
        size: Any,
        axis: Any = -1,
        boundary: str = "valid",
        step: Any = 1,
        out: Any = None,
        options: LaunchOptions = NO_OPTIONS,
        pieces: Sequence[WindowPiece] = (),
    ) -> Prepared:
        """Check a call, with parameters and errors as those of `window`, and make its outputs.

        `pieces`: which windows along some of the axes are wanted; default: all.
        """
        from kspec.model.forms.outputs import infer_window
        from kspec.runtime.schedules.rolling_schedule import choose_rolling

        declaration = self.declaration
        given = out is not None or len(args) > len(declaration.inputs)
        check_count(declaration, args, ".window")
        call = classify(declaration, args, self.given_outputs(args, out))
        self.check_scalars(call)
        inferred, sliding = infer_window(
            declaration,
            *call.types(),
            size=size,
            axis=axis,
            boundary=boundary,
            step=step,
            pieces=pieces,
        )
        shape, binding = inferred.loop, inferred.binding
        call = self.with_outputs(call, inferred.shapes, binding)
        call = gathered(call)
        check_beside(self.__name__, call.inputs, call.outputs if given else ())
        still = (0,) * len(shape)

        def choose(call: Call, modes: tuple[str, ...]) -> RollingSchedule:
            return choose_rolling(
                shape,
                inferred.shape,
                sliding,
                boundary,
                [
                    broadcast_strides(one.view.shape, one.view.strides, shape)
                    if one.view
                    else still
                    for one in call.inputs
                    if not one.param.raw
                ],
                [one.view.strides for one in call.outputs if one.view],
                lambda: self.accumulator_size(call, binding, modes),
                gpu_of(call.device),
                ordered=declaration.needs_places,
            )

        return self._prepare_form(call, inferred, given, options, choose)
