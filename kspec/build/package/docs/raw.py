"""Docstrings of functions that launch raw kernels."""

from __future__ import annotations

from collections.abc import Sequence

from kspec.build.package.docs.lines import (
    Lines,
    SpecLocation,
    heading,
    indented,
    listed,
    safe,
    stream_lines,
    summary,
    tuple_text,
    wrapped,
)
from kspec.model import dtypes
from kspec.model.raw.c_params import HANDLES
from kspec.model.signature import CParam
from kspec.spec.models import RawSpec

# Descriptions of the sizes that a call may choose.
SIZES = {
    ("grid", "block"): "Number of blocks, and of threads in each; one to three numbers.",
    ("grid",): "Number of blocks; one to three numbers.",
    ("block",): "Number of threads of a block; one to three numbers.",
}


def raw_doc(
    spec: RawSpec, words: Sequence[str], values: Sequence[str], place: SpecLocation
) -> tuple[str, ...]:
    """Return the docstring of a function that launches a raw kernel.

    `words` and `values` are the names of its parameters, and of the integers of its template.
    """
    rules = spec.launch_rules
    lines = [*summary(spec), "", *heading("Parameters")]
    if not rules.complete:
        lines += ["grid, block : tuple of int", *indented(SIZES["grid", "block"])]
    if spec.params is None:
        lines.append("args : sequence")
        lines += indented(
            "Arrays pass their address; Python int, float, complex and bool pass 8, 8, 16 and "
            "1 bytes, NumPy scalars their own. Nothing is checked."
        )
    shapes = dict(rules.returns)
    for word, param in zip(words, spec.params or (), strict=True):
        default = (
            f", default ``{spec.defaults[param.name]}``" if param.name in spec.defaults else ""
        )
        if param.name in shapes:
            lines.append(f"{word} : {c_array_text(param)}, optional")
            shape = f"a new array of shape ``{tuple_text(shapes[param.name])}`` by default."
            lines += indented(f"{_c_text(param)[:-1]}; {shape}")
            continue
        lines += [f"{word} : {_c_type(spec, param)}{default}", *indented(_c_text(param))]
    lines += template_lines(spec, values)
    if rules.complete:
        free = [one for one in ("grid", "block") if one not in rules.fixed]
        for axis in free:
            texts = rules.grid if axis == "grid" else rules.block
            lines.append(f"{axis} : tuple of int, default ``{tuple_text(texts)}``")
        lines += indented(SIZES[tuple(free)]) if free else []
    if "shared_mem" not in rules.fixed:
        default = f"``{rules.shared_mem}``" if rules.shared_mem else "0"
        lines.append(f"shared_mem : int, default {default}")
        lines += indented("Dynamic shared memory in bytes.")
    lines += [*stream_lines(), "", *_raw_returns(spec, words), *heading("Raises")]
    lines += ["ArgumentTypeError", "    An argument does not fit; also a `TypeError`."]
    if values:
        lines += ["InstanceNotBuilt", "    No name expression has these types and values."]
    lines += ["LaunchError", "    Grid, block or shared memory are impossible on the device."]
    if shapes:
        lines += ["ShapeError", "    A given output has another shape; also a `ValueError`."]
    lines.append("")
    lines += heading("Notes")
    lines += wrapped(f"Raw kernel, declared in {place}.")
    if spec.source:
        lines += wrapped(f"Its source is {spec.source}, beside the spec.")
    launched = [
        *(["cooperatively"] if spec.cooperative else []),
        *([f"in clusters of {spec.cluster}"] if spec.cluster else []),
        *(["as a programmatic dependent"] if spec.pdl else []),
    ]
    if launched:
        lines += wrapped(f"It is launched {', '.join(launched)}.")
    for one in rules.fixed:
        text = rules.shared_mem if one == "shared_mem" else tuple_text(getattr(rules, one))
        what = "dynamic shared memory" if one == "shared_mem" else one
        lines += wrapped(f"Its {what} is fixed: ``{text}``.")
    names = ", ".join(f"``{name}``" for name in spec.declaration().name_expressions)
    lines += wrapped(f"Precompiled: {names}{place.compiled_for}.")
    return safe(lines)


def template_lines(spec: RawSpec, words: Sequence[str]) -> Lines:
    """Return the keyword arguments that are integers of the kernel's template."""
    declaration, lines = spec.declaration(), list[str]()
    for word, name in zip(words, declaration.values, strict=True):
        known = declaration.values[name]
        default = spec.defaults.get(name, declaration.implied.get(name))
        text = f"``{default}``" if isinstance(default, str) else str(default)
        lines.append(f"{word} : int" + ("" if default is None else f", default {text}"))
        lines += indented(f"Number that the compiler knows: {listed(list(map(str, known)))}.")
    return lines


def _raw_returns(spec: RawSpec, words: Sequence[str]) -> Lines:
    """Return the section about the arrays that a raw kernel returns."""
    pairs = zip(words, spec.params or (), strict=True)
    rows = {param.name: (word, param) for word, param in pairs}
    found = [rows[name] for name in spec.returns]
    if not found:
        return []
    lines = heading("Returns")
    if len(found) > 1:
        lines.append("tuple of arrays")
        for word, param in found:
            lines += indented(f"`{word}`, an {c_array_text(param)}.")
    else:
        word, param = found[0]
        lines += [c_array_text(param), *indented(f"`{word}`.")]
    return [*lines, *indented("New arrays are of the library of the first array argument."), ""]


def c_array_text(param: CParam) -> str:
    """Return the type of an array in words, by that of its pointer."""
    row = dtypes.from_ctype(param.type)
    return f"array of {row.name if row else param.type}"


def _c_type(spec: RawSpec, param: CParam) -> str:
    row = dtypes.from_ctype(param.type)
    if param.pointer:
        return f"{c_array_text(param)}{', optional' if param.nullable else ''}"
    if param.type in HANDLES:
        return HANDLES[param.type]
    if param.type in spec.structs:
        return f"{param.type}, or tuple of its fields"
    if row is None and not param.is_placeholder:
        return param.type
    kind = "int" if row and row.kind in "iu" else "scalar"
    return f"{kind} ({row.name if row else param.type})"


def _c_text(param: CParam) -> str:
    if not param.pointer:
        return f"``{param}``."
    null = "; a null pointer by default" if param.nullable else ""
    return f"``{param}``, {'read' if param.const else 'written'}; C-contiguous{null}."
