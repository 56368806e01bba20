"""Measure how kernels run fastest on a GPU, for the shapes of their examples: ``kspec tune``.

::

    for one in tune(tunables(plan, package, ["norms.l2norm"]), Device("cuda")):
        print(one.kernel, one.case.sizes, one.choice, one.gain)

A kernel tells what can be chosen in a call (`kspec.model.tuning.TuningCase`).  Every choice runs
with the same arguments, and must give the results that the rules' own gives.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

from kspec.build.package import api
from kspec.build.plan import BuildPlan
from kspec.build.properties import examples
from kspec.build.report.lock import Lock, LockedKernel
from kspec.dataclass import dataclass
from kspec.errors import KspecError, SpecError
from kspec.model.shapes import Shape
from kspec.model.tuning import Choice, Tuned, TuningCase
from kspec.render import specializations
from kspec.runtime.driver.device import Device
from kspec.runtime.driver.timing import Stopwatch
from kspec.runtime.kernels import KernelCallable
from kspec.spec.models import RawSpec, Spec

LEAST_GAIN = 1.03  # a choice that is less than so many times faster may be so by chance
_FIRST_RUNS = 7
_FINALISTS = 3  # choices that are measured again, in turn with the rules' own
_ROUNDS, _RUNS = 5, 15
_ROUNDING = 10  # times the tolerance: another order of additions

Shapes = Mapping[str, Shape]


@dataclass(frozen=True)
class Tunable:
    """A kernel to tune.

    Attributes
    ----------
    module, name : str
        Of the kernel.
    spec : Spec
        With an example.
    function : callable
        The generated function.
    kernel : KernelCallable
        The kernel that it calls.
    """

    module: str
    name: str
    spec: Spec
    function: Callable[..., Any]
    kernel: KernelCallable[Any]


@dataclass(frozen=True)
class Measured:
    """Measurements of one kernel on arrays of some shapes.

    Attributes
    ----------
    kernel : Tunable
        The kernel.
    case : TuningCase or None
        Its call; None if there is nothing to choose.
    choices : int
        Number of those tried beside the rules' own.
    choice : mapping or None
        The fastest one; None if it is not faster than the rules' own.
    seconds, best : float
        Median times of the rules' choice, and of the fastest one.
    problem : str
        Why nothing could be measured; empty: it was.
    """

    kernel: Tunable
    case: TuningCase | None = None
    choices: int = 0
    choice: Choice | None = None
    seconds: float = 0.0
    best: float = 0.0
    problem: str = ""

    @property
    def gain(self) -> float:
        """Ratio of the time of the rules to that of the choice."""
        return self.seconds / self.best if self.best else 1.0


class Probe:
    """Tells a kernel what to choose while it is measured; takes note of its call."""

    def __init__(self) -> None:
        self.case: TuningCase | None = None
        self.wanted: Choice | None = None

    def __bool__(self) -> bool:
        return True

    def choice(self, case: TuningCase) -> Choice | None:
        """Return the choice that is measured."""
        self.case = case
        return self.wanted


def tunables(plan: BuildPlan, package: ModuleType, names: Sequence[str] = ()) -> list[Tunable]:
    """Return the kernels of a package that have an example and are precompiled.

    Parameters
    ----------
    plan : BuildPlan
        Of the project.
    package : module
        The generated package.
    names : sequence of str
        Kernels, with or without their module; none: all.

    Raises
    ------
    SpecError
        If a name is that of no kernel, or of one that cannot be tuned.
    """
    found, known = [], set()
    for unit in plan.units:
        module = getattr(package, unit.stem)
        values = vars(module).values()
        kernels = {one.name: one for one in values if isinstance(one, KernelCallable)}
        for spec, context in zip(unit.spec_file.specs, api.functions_of(unit), strict=True):
            own = {spec.name, f"{unit.stem}.{spec.name}"}
            known |= own
            if names and own.isdisjoint(names):
                continue
            reason = _refusal(spec)
            if reason and names:
                raise SpecError(f"kernel {spec.name!r} cannot be tuned: {reason}")
            if not reason:
                function = getattr(module, context.name)
                found.append(Tunable(unit.stem, spec.name, spec, function, kernels[spec.name]))
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SpecError(f"there is no kernel {unknown[0]!r}")
    return found


def _refusal(spec: Spec) -> str:
    if not examples.has_example(spec):
        return "it has no example and reference"
    if isinstance(spec, RawSpec):
        several = any(len(known) > 1 for known in spec.declaration().values.values())
        return "" if several else "its template has no integers with several values to choose from"
    return "" if spec.bindings() else "it is not precompiled"


def shapes_of(kernel: Tunable, shapes: Shapes | None = None) -> list[Shapes]:
    """Return the shapes that a kernel is measured on: given ones, or those of its example."""
    example = kernel.spec.example
    assert example is not None
    return [shapes] if shapes else [{}, *example.tune]


def tune(
    kernels: Sequence[Tunable],
    device: Device,
    shapes: Shapes | None = None,
    types: Mapping[str, str] | None = None,
    least_gain: float = LEAST_GAIN,
) -> Iterator[Measured]:
    """Measure kernels on a GPU, each on the shapes of its example and of the example's `tune`.

    Parameters
    ----------
    kernels : sequence of Tunable
        The kernels.
    device : Device
        A GPU.
    shapes : mapping of str to tuple of int, optional
        Shapes of arrays instead.
    types : mapping of str to str, optional
        Dtypes of placeholders instead of the example's.
    least_gain : float
        How many times faster than the rules' own a choice must be.
    """
    with Stopwatch(device.ordinal) as watch:
        for kernel in kernels:
            for some in shapes_of(kernel, shapes):
                yield _measured(kernel, some, types, device, watch, least_gain)


def _measured(
    one: Tunable,
    shapes: Shapes,
    types: Mapping[str, str] | None,
    device: Device,
    watch: Stopwatch,
    least_gain: float,
) -> Measured:
    before = one.kernel.tuned
    try:
        call = examples.make_call(_with_shapes(one.spec, shapes), types)
        run = examples.bind_call(call, one.function, lambda x: examples.on_device(x, device))
        return _Contest(one, call, run, watch).measure(least_gain)
    except KspecError as error:
        return Measured(one, problem=f"{type(error).__name__}: {error}")
    finally:
        one.kernel.tuned = before


def _with_shapes(spec: Spec, shapes: Shapes) -> Spec:
    """Return a spec whose example has other shapes."""
    example = spec.example
    assert example is not None
    wrong = [name for name in shapes if name not in example.shapes]
    if wrong:
        raise SpecError(f"the example of {spec.name} has no array {wrong[0]!r}")
    other = example.model_copy(update={"shapes": {**example.shapes, **shapes}})
    return spec.model_copy(update={"example": other})


class _Contest:
    """One kernel with its arguments on a GPU."""

    def __init__(
        self,
        one: Tunable,
        call: examples.ExampleCall,
        run: Callable[[], tuple[Any, ...]],
        watch: Stopwatch,
    ) -> None:
        self._one = one
        self._call = call
        self._run = run
        self._watch = watch
        self._probe = Probe()
        self._want: tuple[Any, ...] = ()

    def measure(self, least_gain: float) -> Measured:
        """Measure every choice."""
        if not self._prepare(None):
            raise SpecError("two calls with the same arguments have given other results")
        case = self._probe.case
        if case is None:
            return Measured(self._one)
        own, layouts = dict(case.own()), _layouts(self._one.spec)
        choices = [
            choice
            for choice in case.options()
            if dict(choice) != own and choice.get("layout") in layouts
        ]
        times = [(self._first(choice), k) for k, choice in enumerate(choices)]
        finalists = [choices[k] for time, k in sorted(times)[:_FINALISTS] if time < math.inf]
        rounds = [[self._again(one) for one in (None, *finalists)] for _ in range(_ROUNDS)]
        columns = list(zip(*rounds, strict=True))
        medians = [statistics.median(column) for column in columns]
        best = min(range(len(medians)), key=medians.__getitem__)
        seconds, fastest = medians[0], medians[best]
        # Faster in every round: what is so in most may be so by chance.
        always = all(row[best] < row[0] for row in rounds)
        chosen = finalists[best - 1] if always and seconds >= least_gain * fastest else None
        return Measured(
            self._one, case, len(choices), chosen, seconds, fastest if chosen else seconds
        )

    def _first(self, choice: Choice) -> float:
        """Return the time of a choice in a few runs; inf if it cannot run or is wrong."""
        try:
            if not self._prepare(choice):
                return math.inf
        except KspecError:  # more registers or memory than there are
            return math.inf
        return self._watch.median(self._run, _FIRST_RUNS)

    def _again(self, choice: Choice | None) -> float:
        self._prepare(choice)
        return self._watch.median(self._run, _RUNS)

    def _prepare(self, choice: Choice | None) -> bool:
        """Call the kernel with a choice; return whether the results are those of the first call."""
        self._probe.wanted = choice
        self._one.kernel.tuned = self._probe  # forgets what was chosen before
        got = examples.as_numpy(self._run())
        self._want = self._want or got
        if self._call.written:  # in place: what is read is another thing each time
            return True
        limit = _ROUNDING * examples.tolerance(self._call, got)
        return examples.worst_error(got, self._want) <= limit


def _layouts(spec: Spec) -> set[object]:
    """Return the layouts that are precompiled; None for choices that have none."""
    return {None, *(getattr(one, "layout", None) for one in specializations(spec))}


def updated_lock(lock: Lock, results: Sequence[Measured]) -> Lock:
    """Return a lock with new measurements; earlier ones of the same calls go."""
    return Lock(tuple(_updated(kernel, results) for kernel in lock.kernels))


def _updated(kernel: LockedKernel, results: Sequence[Measured]) -> LockedKernel:
    tuned = list(kernel.tuned)
    for one in results:
        if (one.kernel.module, one.kernel.name) != kernel.key or one.case is None:
            continue
        tuned = [entry for entry in tuned if not entry.is_for(one.case)]
        if one.choice is not None:
            case, gain = one.case, round(one.gain, 2)
            source = kernel.source[:12]
            tuned.append(Tuned(case.gpu, case.types, case.sizes, one.choice, gain, source))
    tuned.sort(key=lambda entry: (entry.gpu, entry.types, entry.sizes))
    return replace(kernel, tuned=tuple(tuned))
