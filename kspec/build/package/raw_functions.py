"""Specs of raw kernels in, the strings of typed Python functions that launch them out."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from kspec.build.package import typed
from kspec.build.package.contexts import FunctionContext, Overload, body_of, call_of
from kspec.build.package.docs.lines import SpecLocation, tuple_text
from kspec.build.package.docs.raw import raw_doc
from kspec.build.package.names import python_names
from kspec.build.package.typed import ANY, ArrayTypes
from kspec.model import dtypes
from kspec.model.signature import CParam, Param
from kspec.spec.models import RawSpec


def raw_function_of(spec: RawSpec, name: str, callee: str, place: SpecLocation) -> FunctionContext:
    """Return the function that launches a raw kernel; parameters as those of `function_of`."""
    rules, declaration = spec.launch_rules, spec.declaration()
    params = spec.params or ()
    words = python_names(one.name for one in (*params, *declaration.template.numbers))
    values = words[len(params) :]
    words = words[: len(params)]

    def parameters(types: ArrayTypes) -> tuple[str, ...]:
        sizes = [one for one in ("grid", "block") if one not in rules.fixed]
        texts = [] if rules.complete else [f"{one}: Dim3" for one in sizes]
        keywords: list[str] = []
        if spec.params is None:
            texts.append("args: Sequence[Any]")
        else:
            listed = [
                f"{word}: {_raw_type(spec, param, types)}"
                for word, param in zip(words, params, strict=True)
            ]
            optional = [param.name in spec.optional for param in params]
            positional, keywords = _optional_last(listed, optional)
            texts += positional
        keywords += _template_keywords(spec, values)
        keywords += [f"{one}: Dim3 | None = None" for one in sizes] if rules.complete else []
        if "shared_mem" not in rules.fixed:
            default = "int | None = None" if rules.shared_mem else "int = 0"
            keywords.append(f"shared_mem: {default}")
        return (*texts, "*", *keywords, "stream: Stream | None = None")

    sizes = ["None" if one in rules.fixed else one for one in ("grid", "block")]
    passed = [*sizes, "args" if spec.params is None else tuple_text(words)]
    passed += [f"template={tuple_text(values)}"] if values else []
    passed += [] if "shared_mem" in rules.fixed else ["shared_mem=shared_mem"]
    passed.append("stream=stream")
    passed += [f"cluster={spec.cluster!r}"] if spec.cluster else []
    passed += ["pdl=True"] if spec.pdl else []
    arrays = [one for one in map(functools.partial(_array_param, spec), params) if one is not None]
    returned = [one for one in arrays if one.name in rules.returned]
    ways: tuple[ArrayTypes, ...] = (ANY,)
    if returned:
        ways = typed.signatures([one for one in arrays if one not in returned], returned)
    several: tuple[Overload, ...] = ()
    shown, returns = ways[0], ways[0].result(returned, False, False)
    if len(ways) > 1:
        several = tuple(
            Overload(parameters(types), types.result(returned, False, False)) for types in ways
        )
        shown, returns = ANY, "Any"
    return FunctionContext(
        name,
        spec.name,
        "raw_function" if rules else "raw",
        callee,
        parameters(shown),
        returns,
        raw_doc(spec, words, values, place),
        body_of(call_of(callee, passed), returns),
        several,
    )


def _template_keywords(spec: RawSpec, words: Sequence[str]) -> list[str]:
    """Return the parameters of a function that are integers of the kernel's template."""
    implied = spec.declaration().implied
    texts = []
    for word, name in zip(words, spec.size_names, strict=True):
        if name in spec.defaults:
            texts.append(f"{word}: int | None = None")
        else:
            texts.append(f"{word}: int" + (f" = {implied[name]}" if name in implied else ""))
    return texts


def _optional_last(typed: list[str], optional: list[bool]) -> tuple[list[str], list[str]]:
    """Return positional and keyword-only parameters: these are optional ones before others."""
    last = max((k for k, one in enumerate(optional) if not one), default=-1)
    positional: list[str] = []
    keywords: list[str] = []
    for k, (text, has_default) in enumerate(zip(typed, optional, strict=True)):
        text = f"{text} | None = None" if has_default else text
        (keywords if has_default and k < last else positional).append(text)
    return positional, keywords


def _raw_type(spec: RawSpec, param: CParam, types: ArrayTypes) -> str:
    """Return the annotation of a parameter, without the None of a default."""
    if param.pointer:
        array = _array_param(spec, param)
        return "AnyArray" if array is None or not spec.returns else types.of(array)
    row = dtypes.from_ctype(param.type)
    if row is not None and row.kind in "iu":
        return "Integer"
    return "Scalar" if row or param.is_placeholder else "Any"


def _array_param(spec: RawSpec, param: CParam) -> Param | None:
    """Return a pointer as the parameter of an array; None for numbers, and without a dtype."""
    row = dtypes.from_ctype(param.type)
    if not param.pointer or not (row or param.is_placeholder or param.type in spec.structs):
        return None
    return Param(row.name if row else spec.structs.get(param.type, param.type), param.name)
