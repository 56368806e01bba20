"""The C++ around an operation that reads neighbours: windows, samples within them, adjoints.

There ``u(-1, 0)`` is a macro, and ``u`` alone a variable.  The macros and loops are those of
``kspec/windows.cuh`` and ``kspec/adjoint.cuh``; `kspec.render.parameters` has the parameters.
"""

from __future__ import annotations

from collections.abc import Sequence

from kspec.dataclass import dataclass
from kspec.model.backward import PREFIX
from kspec.model.neighbours.windows import Window
from kspec.model.signature import Param
from kspec.render import parameters
from kspec.spec.models import ElementwiseSpec
from kspec.spec.neighbours.windows import Adjoint


@dataclass(frozen=True)
class WindowScope:
    """Lines before and after an operation, between which windowed inputs are read at offsets."""

    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True)
class AdjointContext:
    """The loop of a kernel that gathers a gradient.

    Attributes
    ----------
    accumulator : str
        Type of the sum.
    parameters : str
        Parameters of the operation: the window, and what it reads of the inputs.
    before, after : tuple of str
        Lines around the forward operation.
    result : str
        Its outputs multiplied by their gradients.
    names : str
        The output, then the inputs.
    """

    accumulator: str
    parameters: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    result: str
    names: str


def window_tile(windows: Sequence[Window], operands: Sequence[Param]) -> str:
    """Return the tile of a kernel with windows: which elements a thread of a GPU takes.

    >>> window_tile([Window("u", ((1, 1), (0, "R")), ("wrap",))], [Param("T", "u")])
    'kspec::WindowTile<kspec::pack_of<T>, 2, kspec::Reach<1, 1, 0, R>>'

    A sum that reads its window layer by layer has a ``LayeredTile``.
    """
    axes = max(window.axes for window in windows)
    types = ", ".join(dict.fromkeys(parameters.ctype(param) for param in operands))
    reaches = (", ".join(str(end) for ends in window.reach for end in ends) for window in windows)
    reached = ", ".join(f"kspec::Reach<{one}>" for one in reaches)
    tile = "LayeredTile" if any(window.layered for window in windows) else "WindowTile"
    return f"kspec::{tile}<kspec::pack_of<{types}>, {axes}, {reached}>"


def window_scope(spec: ElementwiseSpec, windows: Sequence[Window], ctype: str = "") -> WindowScope:
    """Return the lines around the operation of a kernel that reads some windows.

    `ctype` is the C++ type of their elements, where it is not the declared one.
    """
    params = {param.name: param for param in spec.params}
    if spec.adjoint is not None:
        params[spec.adjoint.param.name] = spec.adjoint.param
    windowed = [(params[window.param], window) for window in windows]
    alone = spec.windows_alone
    sampled = [param for param, _ in windowed if param.name in spec.samples]
    names = (*(param.name for param, _ in windowed), *map(_sample_macro_name, sampled))
    return WindowScope(
        (
            *(_center(param, ctype) for param, _ in windowed if param.name in alone),
            *(_window_macro(param, window) for param, window in windowed),
            *(_sample_macro(param, spec.samples[param.name].order) for param in sampled),
        ),
        tuple(f"#undef {name}" for name in names),
    )


def adjoint_context(spec: ElementwiseSpec, adjoint: Adjoint) -> AdjointContext:
    """Return the loop of a kernel that gathers the gradient of a windowed input."""
    declaration = spec.declaration()
    inputs = [param for param in spec.inputs if not param.raw]
    items = [parameters.loop_item(declaration, param) for param in inputs]
    scope = window_scope(spec, (adjoint.window, *declaration.windows))
    products = [
        f"{parameters.as_accumulator(param)}({param.name}) * "
        f"{parameters.as_accumulator(param)}({PREFIX}{param.name})"
        for param in adjoint.outputs
    ]
    return AdjointContext(
        accumulator=parameters.as_accumulator(adjoint.param),
        parameters=", ".join([parameters.window_item(adjoint.param), *items]),
        before=(
            *(f"{parameters.ctype(param)} {param.name}{{}};" for param in adjoint.outputs),
            *scope.before,
        ),
        after=scope.after,
        result=" + ".join(products),
        names="".join(f", {parameters.argument_name(param)}" for param in (*spec.outputs, *inputs)),
    )


def _center(param: Param, ctype: str) -> str:
    """Return the variable that is a windowed parameter's element."""
    item = f"const {ctype} {param.name}" if ctype else parameters.item(param, output=False)
    return f"{item} = {parameters.window_name(param)}.center();"


def _window_macro(param: Param, window: Window) -> str:
    """Return the macro that makes a read of ``u(-1, 0)``; ``u`` alone is a variable."""
    read = "KSPEC_WINDOW_CHECKED" if window.computed else "KSPEC_WINDOW"
    name = param.name
    return f'#define {name}(...) {read}("{name}", {parameters.window_name(param)}, __VA_ARGS__)'


def _sample_macro_name(param: Param) -> str:
    return f"_sample_{param.name}"


def _sample_macro(param: Param, order: int) -> str:
    """Return the macro that makes a sample of ``_sample_u(0.5, 0)``."""
    arguments = f'{order}, "{param.name}", {parameters.window_name(param)}, __VA_ARGS__'
    return f"#define {_sample_macro_name(param)}(...) KSPEC_SAMPLE({arguments})"
