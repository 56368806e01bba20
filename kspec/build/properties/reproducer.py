"""Python to paste that makes a call and compares it with the reference: a `Case` in, text out.

For a form of a reduction it compares the outputs that one `FormPiece` of the call makes.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping

from kspec.build.properties.case import ArrayArgument, Case, dtype_source, literal
from kspec.build.properties.examples import launch_sizes, windows_of
from kspec.build.properties.forms import FormPiece
from kspec.model import dtypes
from kspec.model.forms.kinds import BY_KEY, REDUCE
from kspec.model.forms.options import indices_of
from kspec.model.neighbours.windows import BoundWindow
from kspec.runtime.driver.device import Device
from kspec.spec.models import RawSpec

_SEEN = ("axis", "keepdims", "boundary")  # keywords that references see


def source(
    case: Case, package: str, device: Device, tolerance: float, piece: FormPiece | None = None
) -> str:
    """Return Python to paste.

    Parameters
    ----------
    case : Case
        The call.
    package : str
        The generated package.
    device : Device
        Where the call is made.
    tolerance : float
        Error that results may have.
    piece : FormPiece, optional
        Of a form: what is compared; None: the call is only made.
    """
    lines = [*_imports(case, package, device), ""]
    for one in case.operands:
        lines += _assignments(one, device)
    lines += [f"{name} = {literal(value)}" for name, value in case.scalars]
    call = _call(case)
    if case.form != REDUCE and piece is None:
        return "\n".join([*lines, call])
    lines += _reference(case, device, piece)
    lines += [call, f"got = {_one(case.written)}"] if case.written else [f"got = {call}"]
    fetch = "kspec.asnumpy(a)" if not device.is_host else "a"
    place = piece.place_source if piece else ""
    lines += [
        "several = isinstance(got, tuple)",
        "for a, b in zip(got, want) if several else [(got, want)]:",
        "    np.testing.assert_allclose(",
        f"        {fetch}{place}.astype(np.asarray(b).dtype), b,",
        f"        rtol={tolerance!r}, atol={tolerance!r},",
        "    )",
    ]
    return "\n".join(lines)


def _imports(case: Case, package: str, device: Device) -> Iterator[str]:
    if "math." in " ".join([case.spec.reference or "", *(one.expression for one in case.operands)]):
        yield from ("import math", "")
    yield "import numpy as np"
    if not device.is_host:
        yield "import kspec"
    if any("bfloat" in one.dtype or "float8" in one.dtype for one in case.operands):
        yield "import ml_dtypes  # registers its dtypes with NumPy"
    yield f"from {package} import {case.function.partition('.')[0]}"
    if _windows(case):
        yield "from kspec.build.properties.windowed import WindowedArray"
        yield "from kspec.model.neighbours.windows import BoundWindow"


def _call(case: Case) -> str:
    arrays = [one.name for one in case.operands]
    keywords = [f"{key}={key if key in arrays else repr(value)}" for key, value in case.keywords]
    keywords += [f"out={_one(case.out)}"] if case.out else []
    passed = [str(one) if isinstance(one, str) else repr(one) for one in case.order]
    if isinstance(case.spec, RawSpec) and case.spec.params is None:
        passed = [f"({', '.join(passed)},)"]
    leading = map(repr, launch_sizes(case.spec))
    return f"{case.function}({', '.join([*leading, *passed, *keywords])})"


def _reference(case: Case, device: Device, piece: FormPiece | None) -> list[str]:
    """Return the lines that set ``want``."""
    text = textwrap.dedent((case.spec.reference or "").strip("\n")).strip()
    keywords = dict(case.keywords)
    names = [one.name for one in case.operands] + [name for name, _ in case.scalars]
    if piece is not None:
        inputs = (
            {one.name for one in case.spec.inputs} if not isinstance(case.spec, RawSpec) else ()
        )
        names = [name for name in names if name in inputs]
        keywords = {"axis": piece.axes, "keepdims": False}
    names += [key for key in keywords if key in (*_SEEN, *case.spec.size_names)]
    exact = [
        repr(keywords[one]) if one in keywords else _exact(case, one, device, piece)
        for one in names
    ]
    return [
        "# The reference, in double precision.",
        f"want = (lambda {', '.join(names)}: (",
        textwrap.indent(text, "    "),
        f"))({', '.join(exact)})",
    ]


def _windows(case: Case) -> Mapping[str, BoundWindow]:
    return windows_of(case.spec, dict(case.keywords))


def _exact(case: Case, name: str, device: Device, piece: FormPiece | None) -> str:
    """Return Python for an argument as the reference sees it."""
    one = next((one for one in case.operands if one.name == name), None)
    if one is None:
        return f"np.asarray({name})" if name in case.casts else name
    wide = {"f": "float", "c": "complex"}.get(dtypes.lookup(one.dtype).kind)
    host = _on_host(name, device)
    exact = f"{host}.astype({wide})" if wide else f"{host}.copy()"
    window = _windows(case).get(name)
    if window:
        return f"WindowedArray.of({exact}, {window!r})"
    if piece is None or name not in case.looped:
        return exact
    if one.shape != case.loop:
        exact = f"np.broadcast_to({exact}, {case.loop})"
    return exact + _piece_source(case, device, piece)


def _piece_source(case: Case, device: Device, piece: FormPiece) -> str:
    """Return Python that takes the elements of a piece, to be written behind an input."""
    if case.form != BY_KEY:
        return piece.source
    (keys,) = indices_of(BY_KEY)
    return f"[{_on_host(keys, device)} == {piece.place[0]}]"


def _on_host(name: str, device: Device) -> str:
    """Return the name of an argument's NumPy array."""
    return name if device.is_host else f"{name}_"


def _assignments(one: ArrayArgument, device: Device) -> list[str]:
    values = "" if one.values is None else one.values.source(one.shape, one.dtype)
    if device.is_host:
        lines = [f"{one.name} = {one.source()}"]
        lines += [f"{one.name}[...] = {values}"] if values else []
        return [*lines, *_changed(one, one.name)]
    block = f"np.zeros({one.layout.block(one.shape)}, {dtype_source(one.dtype)})"
    lines = [f"block = {block}", f"{one.name}_ = block{one.layout.source()}"]
    lines += [f"{one.name}_[...] = {values}"] if values else []
    lines += _changed(one, f"{one.name}_")
    where = f'kspec.asarray(block, device="{device}")'
    return [*lines, f"{one.name} = {where}{one.layout.source()}"]


def _changed(one: ArrayArgument, host: str) -> list[str]:
    """Return the line that lets the example's expression change the elements."""
    if not one.expression:
        return []
    return [f"{host}[...] = (lambda {one.name}: ({one.expression.strip()}))({host})"]


def _one(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"({', '.join(names)})"
