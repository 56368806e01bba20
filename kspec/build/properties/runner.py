"""Runs the property tests of kernels: kernels and devices in, an `Outcome` for each pair out.

The `reference` of a spec is Python from the spec file.  It is evaluated here (by
`kspec.build.properties.examples.expected`), with the names of the parameters, ``np`` and ``math``.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import hypothesis
import numpy as np
from hypothesis import HealthCheck, Phase
from hypothesis.errors import Flaky, Unsatisfiable
from hypothesis.strategies import SearchStrategy

from kspec.build.package import api
from kspec.build.plan import BuildPlan
from kspec.build.properties import examples
from kspec.build.properties.case import Array, Case, Shape
from kspec.build.properties.differences import difference, reference_problem, result_names
from kspec.build.properties.examples import ExampleCall
from kspec.build.properties.form_strategies import form_cases
from kspec.build.properties.forms import WHOLE, FormPiece, comparable_forms, slack
from kspec.build.properties.gradients import gradient_problem
from kspec.build.properties.reproducer import source
from kspec.build.properties.strategies import cases
from kspec.dataclass import dataclass
from kspec.errors import KspecError, SpecError, ToolNotFoundError
from kspec.model.forms.kinds import REDUCE
from kspec.runtime.driver.device import Device
from kspec.runtime.kernels import KernelCallable
from kspec.runtime.package import module_of
from kspec.spec.models import RawSpec, ReductionSpec, Spec

EXAMPLES = 50
PHASES = (Phase.generate, Phase.shrink)
_SLOW = 100_000  # elements of an example with fixed shapes that is repeated a few times only
_FEW = 5
# What a reference raises because of its text and not because of its arguments.
_BUGS = (NameError, AttributeError, SyntaxError)


@dataclass(frozen=True)
class Subject:
    """A kernel to test, in one of its forms: the spec, and the generated function or its method.

    `project` and `path`: the project's folder, and the spec file in it.
    """

    name: str
    spec: Spec
    function: Callable[..., Any]
    package: str
    kernel: KernelCallable[Any]
    form: str = REDUCE
    project: Path = Path()
    path: str = ""

    def told(self, error: SpecError) -> str:
        """Return the message about a reference, with its place."""
        return str(reference_problem(self.project, self.path, self.spec, error))


@dataclass(frozen=True)
class Outcome:
    """One kernel on one device.

    Attributes
    ----------
    kernel, device : str
        The kernel, with its form unless that is ``reduce``, and the device.
    examples : int
        How many calls were compared.
    seconds : float
        How long it took.
    problem : str
        What went wrong; empty: nothing.
    reproducer : str
        Python to paste that shows it.
    """

    kernel: str
    device: str
    examples: int
    seconds: float
    problem: str = ""
    reproducer: str = ""


class Mismatch(Exception):
    """A kernel and its reference do not agree, or the kernel failed."""


def subjects(plan: BuildPlan, package: ModuleType, names: Sequence[str] = ()) -> list[Subject]:
    """Return the kernels of a package that have a reference, and their forms.

    Parameters
    ----------
    plan : BuildPlan
        Of the project.
    package : module
        The generated package.
    names : sequence of str
        Kernels, with or without their module, or forms of them (``total.scan``); none: all.

    Raises
    ------
    SpecError
        If a name is that of no kernel, or of one without a reference.
    """
    found = []
    known = set()
    for unit in plan.units:
        module = getattr(package, unit.stem)
        for spec, context in zip(unit.spec_file.specs, api.functions_of(unit), strict=True):
            function = getattr(module, context.name)
            own = {spec.name, f"{unit.stem}.{spec.name}"}
            for form in comparable_forms(spec):
                end = f".{form}" if form != REDUCE else ""
                asked = own | {f"{name}{end}" for name in own}
                known |= asked
                if names and asked.isdisjoint(names):
                    continue
                if spec.reference is None:
                    if names:
                        raise SpecError(f"kernel {spec.name!r} has no reference to compare it with")
                    continue
                name = f"{unit.stem}.{context.name}{end}"
                called = getattr(function, form) if end else function
                kernel = module_of(module).kernel(spec.name)
                package_name = plan.settings.import_name
                place = plan.settings.project, unit.spec_file.path
                found.append(Subject(name, spec, called, package_name, kernel, form, *place))
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SpecError(f"there is no kernel {unknown[0]!r}")
    return found


def test_all(
    kernels: Sequence[Subject], devices: Sequence[Device], count: int = EXAMPLES, seed: int = 0
) -> Iterator[Outcome]:
    """Test kernels on devices; yield each outcome."""
    for subject in kernels:
        for device in devices:
            yield test_kernel(subject, device, count, seed)


def test_kernel(subject: Subject, device: Device, count: int = EXAMPLES, seed: int = 0) -> Outcome:
    """Test one kernel on one device.

    Raises
    ------
    ToolNotFoundError
        If the device cannot be used because something is not installed.
    """
    start = time.perf_counter()
    checker = _Checker(subject, device)
    problem, reproducer = "", ""
    try:
        _search(checker, _count(subject.spec, count), seed)
    except Mismatch as error:
        problem, reproducer = str(error), checker.reproducer()
    except Flaky:  # a race, perhaps
        text = checker.failed[2] if checker.failed else ""
        problem, reproducer = f"not each time: {text}", checker.reproducer()
    except Unsatisfiable:
        problem = checker.refusal or "no arguments were found that the reference accepts"
    except SpecError as error:
        problem = subject.told(error)
    if not problem and not checker.compared:
        problem = checker.refusal
    if subject.form == REDUCE:
        problem = problem or gradient_problem(subject.kernel, subject.spec, device)
    seconds = time.perf_counter() - start
    return Outcome(subject.name, str(device), checker.compared, seconds, problem, reproducer)


def _count(spec: Spec, count: int) -> int:
    example = spec.example
    if not isinstance(spec, RawSpec) or example is None or spec.launch_rules.complete:
        return count
    size = max((int(np.prod(shape)) for shape in example.shapes.values()), default=0)
    return min(count, _FEW) if size > _SLOW else count


def _search(checker: _Checker, count: int, seed: int) -> None:
    """Let Hypothesis look for a call that fails, and shrink it."""
    settings = hypothesis.settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=PHASES,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        verbosity=hypothesis.Verbosity.quiet,
        print_blob=False,
    )

    @hypothesis.seed(seed)
    @settings
    @hypothesis.given(_cases(checker.subject))
    def agrees(case: Case) -> None:
        checker.check(case)

    agrees()


def _cases(subject: Subject) -> SearchStrategy[Case]:
    if isinstance(subject.spec, ReductionSpec) and subject.form != REDUCE:
        return form_cases(subject.spec, subject.name, subject.form)
    return cases(subject.spec, subject.name)


class _Checker:
    """Compares one case after the other, and remembers the last that failed."""

    def __init__(self, subject: Subject, device: Device) -> None:
        self.subject = subject
        self.device = device
        self.compared = 0
        self.refusal = ""
        self.failed: tuple[Case, float, str, FormPiece | None] | None = None

    def check(self, case: Case) -> None:
        """Raise `Mismatch` unless kernel and reference agree."""
        shape: Shape | None = None
        pieces = [WHOLE]
        if case.form != REDUCE:
            shape, pieces = case.pieces()
        call = case.call()
        wanted = self._wanted(case, call, pieces)
        refused = ""
        got: tuple[Array, ...] = ()
        try:
            got = case.run(self.subject.function, self.device)
        except ToolNotFoundError:
            raise
        except (KspecError, ValueError, TypeError) as fault:
            refused = f"{type(fault).__name__}: {fault}"
        if refused:  # raised here, where Hypothesis sees the same error each time
            raise self._failure(case, 0.0, refused)
        self.compared += 1
        for one in got:
            if shape is not None and one.shape != shape:
                text = f"the result has shape {one.shape}, not {shape}"
                raise self._failure(case, 0.0, text)
        limit = examples.tolerance(call, got) * slack(piece for piece, _ in wanted)
        for piece, want in wanted:
            self._compare(case, piece, want, got, limit, result_names(call))

    def _wanted(
        self, case: Case, call: ExampleCall, pieces: Sequence[FormPiece]
    ) -> list[tuple[FormPiece, tuple[Array, ...]]]:
        """Return the results of the reference, of the pieces that it accepts."""
        found = []
        for piece in pieces:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of empty slices, and the like
                    part = call if piece is WHOLE else case.of_piece(call, piece)
                    found.append((piece, examples.expected(part)))
            except SpecError as error:
                if isinstance(error.__cause__, _BUGS):
                    raise Mismatch(self.subject.told(error)) from None
                self.refusal = str(error)  # of arguments, as `numpy.max` has it of empty ones
        if pieces and not found:
            hypothesis.reject()
        return found

    def _compare(
        self,
        case: Case,
        piece: FormPiece,
        want: tuple[Array, ...],
        results: tuple[Array, ...],
        limit: float,
        names: tuple[str, ...],
    ) -> None:
        """Raise `Mismatch` unless the results of a piece are as wanted."""
        got = tuple(np.asarray(one[piece.place]) for one in results)
        if len(want) == len(got):
            want = tuple(as_stored(a, b) for a, b in zip(want, got, strict=True))
        text = difference(names, got, want, limit)
        where = "" if piece is WHOLE else f" at {piece.place_source}"
        if text:
            raise self._failure(case, limit, f"{text}{where}", piece)

    def reproducer(self) -> str:
        """Return Python that makes the last call that failed."""
        if self.failed is None:
            return ""
        case, limit, text, piece = self.failed
        comment = "\n".join(f"# {line}" for line in text.splitlines())
        return f"{comment}\n{source(case, self.subject.package, self.device, limit, piece)}"

    def _failure(
        self, case: Case, limit: float, text: str, piece: FormPiece | None = None
    ) -> Mismatch:
        if case.form != REDUCE:
            text = f"{case.form}: {text}"
        self.failed = case, limit, text, None if piece is WHOLE else piece
        return Mismatch(text)


def as_stored(want: Array, got: Array) -> Array:
    """Return a reference's result as the kernel's dtype would hold it, where that is not finite.

    Integers wrap around. Floats keep their precision, but what is too large becomes infinite.
    """
    if want.dtype.names is not None or got.dtype.names is not None:
        return want
    with np.errstate(all="ignore"):
        if want.dtype.kind in "iub" and got.dtype.kind in "iu":
            return want.astype(got.dtype)
        stored = want.astype(got.dtype)
        if want.dtype.kind in "fc" and stored.dtype.kind == want.dtype.kind:
            return np.where(np.isfinite(stored), want, stored.astype(want.dtype))
    return want
