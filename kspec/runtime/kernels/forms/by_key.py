"""Calling a reduction kernel by key: keys, binding, outputs, schedule, launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kspec.errors import ArgumentTypeError, shorten
from kspec.model.forms.kinds import BY_KEY
from kspec.model.infer import Inferred
from kspec.runtime.arguments.binding import Call, Operand
from kspec.runtime.callcache.prepared import Prepared
from kspec.runtime.driver.device import gpu_of
from kspec.runtime.driver.launch import NO_OPTIONS, LaunchOptions
from kspec.runtime.kernels import CALL_ERRORS
from kspec.runtime.kernels.folding import FoldingCallable, is_plain, known_type
from kspec.runtime.kernels.forms.indices import check_beside
from kspec.runtime.libraries.untraced import untraced

if TYPE_CHECKING:
    from kspec.runtime.schedules.key_schedule import KeySchedule

_OPTIONS = ("n", "deterministic")


class ByKeyCallable(FoldingCallable):
    """A reduction kernel that can reduce by key."""

    @untraced
    def by_key(
        self,
        *args: Any,
        n: int | None = None,
        deterministic: bool = True,
        out: Any = None,
        stream: Any = None,
        sanitize: str | None = None,
        order: str | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Reduce the elements of each key, wherever they are: histograms, sums by group.

        Parameters
        ----------
        *args : arrays or scalars
            The inputs, then ``keys``, and then the number of outputs unless it is given by
            keyword. Keys are an array of integers, one for each row of the first axis: the output
            that the row belongs to. Rows whose keys are not in ``range(n)`` belong to none. Inputs
            broadcast against each other.
        n : int
            Number of outputs.
        deterministic : bool, default True
            Join elements in their order, so that the reduce expression need not be commutative,
            and equal calls give equal bits. Otherwise it must be commutative, and floating-point
            sums may differ in their last bits from call to call; GPUs are faster then.
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
            The outputs, of the kind of the first array; their first axis has an element for each
            key, the others are those of the inputs. An output without elements is made of the
            identity. The map sees the key as ``_segment`` and the number of the row as ``_J``, and
            the post-map, as ``_in_ind.size() / _out_ind.size()``, how many elements the output
            has.

        Raises
        ------
        ArgumentTypeError
            A `TypeError`: wrong number of arguments, wrong dtype, arrays on several devices,
            `deterministic` is not a bool.
        ShapeError
            A `ValueError`: shapes do not fit, or the kernel has no identity.
        NotSupportedError
            The expressions read ``_raw_<name>`` or an indexer.
        SpecializationNotBuilt
            Nothing precompiled fits and ``KSPEC_JIT=never``.
        """
        try:
            if n is None:
                args, n = self.with_count(args)
            given = self.all_given(args, out, indices=1)
            plain = sanitize is None and order is None and timeout is None
            if plain and is_plain(n) and type(deterministic) is bool:
                cached = self._cached(BY_KEY, given)
                if cached is not None and given is not None:
                    places = (*given, *self._absent[len(given) :])
                    return cached(self, *places, n, deterministic, stream)
            options = LaunchOptions(stream, sanitize=sanitize, order=order, timeout=timeout)
            prepared = self.prepare_by_key(args, n, deterministic, out, options)
            return self._run_form(BY_KEY, prepared, given, _OPTIONS, indices=1)
        except CALL_ERRORS as error:
            shorten(error)
            raise

    def with_count(self, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any]:
        """Return the inputs with the keys, and the number of outputs, of a call without ``n=``.

        Raises
        ------
        ArgumentTypeError
            If there is a wrong number of arguments.
        """
        nin = len(self._declaration.inputs)
        if len(args) != nin + 2:
            raise ArgumentTypeError(
                f"{self.__name__}.by_key() takes {nin + 2} positional arguments "
                f"({self._declaration.inputs}, keys, n), not {len(args)}"
            )
        return args[:-1], args[-1]

    def prepare_by_key(
        self,
        args: Sequence[Any],
        n: Any,
        deterministic: bool = True,
        out: Any = None,
        options: LaunchOptions = NO_OPTIONS,
    ) -> Prepared:
        """Check a call, with parameters and errors as those of `by_key`, and make its outputs.

        The outputs may be behind the keys, too.
        """
        from kspec.model.forms.outputs import infer_by_key
        from kspec.runtime.schedules.key_schedule import KEYS, PROGRESS

        declaration = self.declaration
        call, keys = self.with_indices(args, out, BY_KEY, "keys")
        given = bool(call.outputs)
        inputs, outputs = call.types()
        inferred = infer_by_key(
            declaration, inputs, keys.abstract, outputs, n=n, deterministic=deterministic
        )
        call = self.with_outputs(call, inferred.shapes, inferred.binding)
        check_beside(self.__name__, (*call.inputs, keys), call.outputs if given else ())

        def choose(call: Call, modes: tuple[str, ...]) -> KeySchedule:
            return self.key_schedule(
                call, keys, inferred, modes, bool(deterministic), declaration.counted
            )

        return self._prepare_form(
            call,
            inferred,
            given,
            options,
            choose,
            indices=keys,
            place=KEYS,
            zeroed=PROGRESS,
        )

    def key_schedule(
        self,
        call: Call,
        keys: Operand,
        inferred: Inferred,
        modes: tuple[str, ...],
        deterministic: bool,
        counted: bool,
    ) -> KeySchedule:
        """Return the schedule of a call with outputs, or with accumulators in place of them.

        `counted`: whether the elements of each key are counted.
        """
        from kspec.runtime.schedules.key_schedule import Joined, Keyed, choose_keys
        from kspec.runtime.schedules.reductions import MAX_ACCUMULATOR

        shape, binding = inferred.loop, inferred.binding
        looped = [operand for operand in call.inputs if not operand.param.raw]
        columns, steps = self.rows_of(looped, call.outputs, shape, inferred.shape)
        row = known_type(self.declaration, binding)
        assert keys.view is not None
        return choose_keys(
            Keyed(columns, shape[0], inferred.shape[0], steps, keys.view),
            Joined(row.itemsize if row else MAX_ACCUMULATOR, row, self.declaration.joins, counted),
            lambda: self.accumulator_size(call, binding, modes),
            gpu_of(call.device),
            deterministic=deterministic,
        )
