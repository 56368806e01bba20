"""Checks of a spec whose fields are valid one by one: plain values in, faults out.

>>> from kspec.spec.parser import parse_signature
>>> empty = parse_signature("")
>>> [fault.message for fault in reserved_names("elementwise", parse_signature("T i"), empty)]
["'i' is the index of the element; choose another parameter name"]

`kspec.spec.models` runs these after Pydantic has accepted the fields; `kspec.spec.faults` has
the neighbour that turns them into exceptions.
"""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from kspec import limits
from kspec.cpp.directives import header_names, macro_definitions
from kspec.cpp.fragments import (
    dangling_operator,
    end_of_expression,
    identifiers,
    offset_of,
    template_parameters,
    unbalanced,
)
from kspec.cpp.kernel_heads import kernel_names
from kspec.cpp.names import name_problem
from kspec.errors import counted
from kspec.model import dtypes
from kspec.model.neighbours.windows import MAX_SIZE
from kspec.model.signature import Signature
from kspec.spec.faults import Fault

Binding = tuple[tuple[str, str], ...]
Bindings = tuple[Binding, ...]

# Names generated code uses beside the user's, per kind.
_INDEX_NAMES = {
    "elementwise": {"i": "the index of the element"},
    "reduction": {},
}
_GENERATED_NAMES = {
    "elementwise": frozenset(
        {"_ind", "_elements", "_at", "_Layout", "_thread", "_threads", "_sync"}
    ),
    "reduction": frozenset(
        [
            *("_i", "_j", "_J", "_segment", "_in_ind", "_out_ind", "_type_reduce"),
            *("_plan", "_op", "_Op", "_Acc", "_at", "_At", "_Layout", "_INDEXED"),
            *("_COUNTED", "_JOINS"),
            *("_identity", "_initial", "_value", "_map", "_reduce", "_post", "_outputs"),
        ]
    ),
}
_GENERATED_PREFIXES = ("_arg_", "_raw_", "_NDIM_", "_window_", "_sample_")
_ACCUMULATORS = ("a", "b")

# Names of types that need no declaration, beside those of dtypes.
_CUDA_TYPES = re.compile(r"\w+_t|u?(char|short|int|long|longlong)[1-4]|(float|double)[1-4]|dim3")
# Options that may declare more than the text shows.
_DEFINES = re.compile(r"-D|-I|--?include|--define|--pre-include")

# Control characters but for newlines and tabs, and those that write text backwards.
_HIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff]")

# Keyword arguments of the generated Python functions, which parameters must not hide.
_CALL_KEYWORDS = {
    "elementwise": ("out", "size", "stream", "block_size"),
    "reduction": ("axis", "keepdims", "out", "stream"),
    "raw": ("grid", "block", "shared_mem", "stream"),
}


def kernel_name(name: str) -> Iterator[Fault]:
    """Check that a kernel's name can name a C++ function."""
    problem = name_problem(name)
    if name == "main":
        problem = "C++ reserves it for the program's entry"
    if problem:
        yield Fault(("name",), f"Invalid kernel name {name!r}: {problem}", at_key=True)


def is_generated(kind: str, name: str) -> bool:
    """Return whether generated code of a kernel of that kind may use a name."""
    return name in _GENERATED_NAMES[kind] or name.startswith(_GENERATED_PREFIXES)


def variables(kind: str) -> tuple[str, ...]:
    """Return the variables of the expressions of kernels of that kind, beside their parameters."""
    return tuple(_INDEX_NAMES[kind]) or _ACCUMULATORS


def reserved_names(kind: str, inputs: Signature, outputs: Signature) -> Iterator[Fault]:
    """Check parameter names and placeholders against what `kind` reserves."""
    index_names = _INDEX_NAMES[kind]
    for field, signature in (("inputs", inputs), ("outputs", outputs)):
        for name in signature.names:
            reason = ""
            if is_generated(kind, name):
                reason = "is a name of generated code"
            elif name in index_names:
                reason = f"is {index_names[name]}"
            elif kind == "reduction" and field == "outputs" and name in _ACCUMULATORS:
                reason = "is an accumulator of the reduce and post-map expressions"
            if reason:
                yield Fault(
                    (field,), f"{name!r} {reason}; choose another parameter name", word=name
                )
    for field, placeholder in _placeholder_fields(inputs, outputs):
        if placeholder in variables(kind):
            message = f"type placeholder {placeholder!r} would hide a variable of that name"
            yield Fault((field,), f"{message}; use another letter", word=placeholder)


def clashing_names(kernel: str, inputs: Signature, outputs: Signature) -> Iterator[Fault]:
    """Check that parameters and kernel differ from each other and from the type placeholders."""
    placeholders = {placeholder for _, placeholder in _placeholder_fields(inputs, outputs)}
    if kernel in placeholders:
        message = f"Invalid kernel name {kernel!r}: it is a type placeholder too"
        yield Fault(("name",), message, at_key=True)
    seen: set[str] = set()
    for field, signature in (("inputs", inputs), ("outputs", outputs)):
        for name in signature.names:
            if name in seen:
                message = f"two parameters are called {name!r}; every parameter needs its own name"
                yield Fault((field,), message, word=name)
            elif name in placeholders:
                message = f"{name!r} is a type placeholder too; rename the parameter"
                yield Fault((field,), message, word=name)
            seen.add(name)


def _placeholder_fields(inputs: Signature, outputs: Signature) -> Iterator[tuple[str, str]]:
    for placeholder in inputs.placeholders:
        yield "inputs", placeholder
    for placeholder in outputs.placeholders:
        if placeholder not in inputs.placeholders:
            yield "outputs", placeholder


def not_empty(**fragments: str) -> Iterator[Fault]:
    """Check that fragments have content."""
    for field, text in fragments.items():
        if not text.strip():
            yield Fault((field,), "must not be empty", offset=0)


def balanced(
    fragments: Mapping[str, str], preamble: str, options: tuple[str, ...]
) -> Iterator[Fault]:
    """Check that brackets, quotes and comments match in each fragment, unless macros hide some."""
    hidden = any(option.startswith(("-include", "--pre-include")) for option in options)
    # A header of the user's is in quotes, or in a directory that the options name.
    own = ('"', "<") if any(one.startswith(("-I", "--include")) for one in options) else '"'
    texts = (preamble, *fragments.values())
    bodies = [body for text in texts for _, body in macro_definitions(text)]
    included = any(one.text.startswith(own) for text in texts for one in header_names(text))
    if hidden or included or any(map(unbalanced, (*bodies, *options))):
        return
    for field, text in fragments.items():
        found = unbalanced(text)
        if found:
            yield Fault((field,), found[1], found[0])


def ends_its_line(fragments: Mapping[str, str]) -> Iterator[Fault]:
    """Check that no fragment takes the line behind it, which is none of its own, into its last."""
    for field, text in fragments.items():
        last = len(text.rstrip(" \t")) - 1
        if text[last : last + 1] == "\\":
            message = "ends with a backslash, which continues its last line; leave it out"
            yield Fault((field,), message, last, 1)


def around_the_loop(loop_prep: str, after_loop: str) -> dict[str, str]:
    """Return the fragments around a loop to check one by one: none if one closes the other."""
    if not unbalanced(f"{loop_prep}\n{after_loop}"):
        return {}
    return {"loop_prep": loop_prep, "after_loop": after_loop}


def expressions(**fragments: str) -> Iterator[Fault]:
    """Check that what must be one expression is neither several statements nor half of one."""
    for field, text in fragments.items():
        offset = end_of_expression(text)
        if offset >= 0:
            yield Fault((field,), "must be an expression; leave out ';'", offset)
        elif (offset := dangling_operator(text)) >= 0:
            yield Fault((field,), f"the expression ends with {text[offset]!r}", offset)


def raw_views_exist(params: Signature, fragments: Mapping[str, str]) -> Iterator[Fault]:
    """Check that ``_raw_x`` is not asked for where ``x`` is the array already."""
    raw = {param.name for param in params if param.raw}
    for fault, name in _raw_views(params, fragments):
        if name in raw:
            message = f"parameter {name!r} is raw: {name!r} itself is the array"
            yield replace(fault, message=message)


def _raw_views(params: Signature, fragments: Mapping[str, str]) -> Iterator[tuple[Fault, str]]:
    """Yield the first place of ``_raw_x`` in each fragment, for every parameter ``x``."""
    for field, text in fragments.items():
        for word in identifiers(text):
            name = word.removeprefix("_raw_")
            if word != name and name in params.names:
                yield Fault((field,), "", offset_of(word, text), len(word)), name


def types_fit(
    placeholders: tuple[str, ...],
    types: Mapping[str, tuple[str, ...]] | tuple[Mapping[str, str], ...],
) -> Iterator[Fault]:
    """Check that `types` binds exactly the placeholders of the signature."""
    rows: Iterable[tuple[tuple[int, ...], Mapping[str, object]]] = (
        [((), types)] if isinstance(types, Mapping) else [((k,), t) for k, t in enumerate(types)]
    )
    for index, row in rows:
        unknown = [key for key in row if key not in placeholders]
        for key in unknown:
            have = ", ".join(placeholders) or "none"
            message = f"{key!r} is not a type placeholder of the signature (it has: {have})"
            yield Fault(("types", *index, key), message, at_key=True)
        missing = [placeholder for placeholder in placeholders if placeholder not in row]
        if row and missing and not unknown:
            message = f"no dtypes for placeholder {', '.join(missing)}; list them or leave out"
            yield Fault(("types", *index), f"{message} 'types' to compile lazily only")


def few_bindings(
    placeholders: tuple[str, ...],
    types: Mapping[str, tuple[str, ...]] | tuple[Mapping[str, str], ...],
) -> Iterator[Fault]:
    """Check that lists of dtypes do not multiply to more than anybody compiles."""
    if isinstance(types, Mapping):
        count = math.prod(len(types.get(letter, ())) for letter in placeholders)
        if count > limits.BINDINGS:
            message = (
                f"'types' has {count} combinations, but at most {limits.BINDINGS} are compiled"
            )
            yield Fault(("types",), f"{message}; list the combinations that are called")


def one_line(text: str, field: str, *index: int) -> Iterator[Fault]:
    """Check what becomes part of a line: nothing that ends the line, or joins the next to it."""
    offset = next((k for k, one in enumerate(text) if not (one.isprintable() or one == "\t")), -1)
    if offset < 0 and text.endswith("\\"):
        offset = len(text) - 1
    if offset >= 0:
        yield Fault((field, *index), "must be one line of printable characters", offset)


def printable(text: str, field: str) -> Iterator[Fault]:
    """Check that a text shows what it is: no control characters, none that turn its direction."""
    found = _HIDDEN.search(text)
    if found:
        message = f"has the control character U+{ord(found[0]):04X}"
        yield Fault((field,), message, found.start())


def plain_path(text: str, field: str) -> Iterator[Fault]:
    """Check that a path can stand in a ``#line`` directive."""
    found = re.search(r"[^\w./ +-]", text)
    if found:
        message = f"a path has letters, digits and _ . / + - only, not {found[0]!r}"
        yield Fault((field,), message, found.start())


def example_is_small(shapes: Mapping[str, tuple[int, ...]]) -> Iterator[Fault]:
    """Check that the arrays of an example fit into any machine."""
    for name, shape in shapes.items():
        if min(shape, default=0) < 0 or math.prod(shape) > limits.EXAMPLE_ELEMENTS:
            message = f"an example has at most {limits.EXAMPLE_ELEMENTS} elements, not {shape}"
            yield Fault(("example", "shapes", name), message)


def tuned_shapes_fit(
    known: Mapping[str, tuple[int, ...]], given: Sequence[Mapping[str, tuple[int, ...]]]
) -> Iterator[Fault]:
    """Check that the shapes to tune are of arrays of the example, with as many axes."""
    for number, shapes in enumerate(given):
        for name, shape in shapes.items():
            where = ("example", "tune", number, name)
            if name not in known:
                message = f"{name!r} is not an array of the example (it has: {', '.join(known)})"
                yield Fault(where, message, at_key=True)
            elif len(shape) != len(known[name]):
                axes = counted(len(known[name]), "dimension")
                yield Fault(where, f"{name!r} has {axes} in the example, not {len(shape)}")
            elif min(shape, default=1) < 1 or math.prod(shape) > limits.EXAMPLE_ELEMENTS:
                most = limits.EXAMPLE_ELEMENTS
                yield Fault(where, f"an array to tune has 1 to {most} elements, not {shape}")


def kernels_exist(text: str, name_expressions: tuple[str, ...]) -> Iterator[Fault]:
    """Check that raw code mentions the kernels it is asked for, as far as its own text tells."""
    includes = any(one.text.startswith('"') for one in header_names(text))
    if "__global__" not in text or "##" in text or includes:
        return  # a macro or a header may make the name
    words = set(identifiers(text))
    for index, expression in enumerate(name_expressions):
        names = re.findall(r"[A-Za-z_]\w*", expression.partition("<")[0])
        if names and names[-1] not in words:
            have = ", ".join(kernel_names(text)) or "none"
            message = f"the code has no kernel {names[-1]!r} (it has: {have})"
            yield Fault(("name_expressions", index), message, offset=0, length=len(expression))


def preamble_is_generic(
    preamble: str, placeholders: tuple[str, ...], bindings: Bindings
) -> Iterator[Fault]:
    """Check that a preamble shared by several bindings does not depend on one of them."""
    if len(bindings) < 2:
        return
    generic = template_parameters(preamble)
    for word in identifiers(preamble):
        if word in placeholders and word not in generic:
            message = (
                f"the preamble uses type placeholder {word!r}, but 'types' compiles it once for "
                f"{len(bindings)} bindings; make the helper a C++ template:"
                f" template <typename {word}>"
            )
            yield Fault(("preamble",), message, offset_of(word, preamble), len(word))


def reduce_type_is_known(
    reduce_type: str, placeholders: tuple[str, ...], preamble: str, options: tuple[str, ...]
) -> Iterator[Fault]:
    """Check a reduction's accumulator type as far as that is possible without a compiler."""
    broken = re.search(r"[^\w\s:<>,()*+-]|\n", reduce_type)
    if broken:
        message = f"{broken[0]!r} is not part of a C++ type"
        yield Fault(("reduce_type",), message, broken.start())
        return
    if reduce_type in placeholders or reduce_type in identifiers(preamble):
        return
    if len(reduce_type) == 1:
        have = ", ".join(placeholders) or "none"
        message = f"{reduce_type!r} is not a type placeholder of the signature (it has: {have})"
        yield Fault(("reduce_type",), message, offset=0)
    elif dtypes.is_known(reduce_type):
        ctype = dtypes.lookup(reduce_type).ctype
        if ctype != reduce_type:
            message = f"{reduce_type!r} is a NumPy name; the accumulator needs a C++ type"
            yield Fault(
                ("reduce_type",),
                f"{message}: write {ctype!r}",
                offset=0,
                length=len(reduce_type),
            )
    elif _is_nobodys(reduce_type, preamble, options):
        message = (
            f"the preamble declares no {reduce_type!r}; the accumulator is a C++ type, such as "
            "'double', a placeholder, or a struct of the preamble"
        )
        yield Fault(("reduce_type",), message, offset=0, length=len(reduce_type))


def _is_nobodys(name: str, preamble: str, options: tuple[str, ...]) -> bool:
    """Return whether a plain name is surely no type: neither C++'s nor CUDA's nor the user's."""
    elsewhere = header_names(preamble) or "##" in preamble or any(map(_DEFINES.match, options))
    return (
        re.fullmatch(r"[A-Za-z]\w*", name) is not None
        and dtypes.from_ctype(name) is None
        and not _CUDA_TYPES.fullmatch(name)
        and not elsewhere
    )


def is_python_expression(text: str, *where: str) -> Iterator[Fault]:
    """Check that a text is a Python expression; it is not evaluated."""
    try:
        compile(text.strip(), "<expression>", "eval")
    except SyntaxError as error:
        yield Fault(where, f"not a Python expression: {error.msg}")


def example_fits(
    arrays: Iterable[str], scalars: Iterable[str], given: Mapping[str, Iterable[str]]
) -> Iterator[Fault]:
    """Check that an example's shapes, scalars and values name parameters."""
    known = tuple(arrays)
    allowed = {"shapes": known, "scalars": tuple(scalars), "values": known}
    for table, names in given.items():
        for name in names:
            if name not in allowed[table]:
                have = ", ".join(allowed[table]) or "none"
                message = f"{name!r} is not a parameter of this kernel (it has: {have})"
                yield Fault(("example", table, name), message, at_key=True)


def example_choices_fit(
    sizes: Sequence[str],
    boundaries: Sequence[str],
    given: Mapping[str, int],
    boundary: str | None,
    decided: Sequence[str] = (),
) -> Iterator[Fault]:
    """Check the integer placeholders and the boundary of an example."""
    for name, value in given.items():
        where = ("example", "sizes", name)
        if name in decided:
            message = (
                f"{name!r} is a core dimension of inputs, whose shapes decide it; leave it out"
            )
            yield Fault(where, message, at_key=True)
        elif name not in sizes:
            have = ", ".join(sizes) or "none"
            message = f"{name!r} is not a size of this kernel (it has: {have})"
            yield Fault(where, message, at_key=True)
        elif not 0 <= value <= MAX_SIZE:
            yield Fault(where, f"must be in [0, {MAX_SIZE}], not {value}")
    if boundary is not None and boundary not in boundaries:
        listed = ", ".join(map(repr, boundaries))
        allowed = f"the windows have {listed}" if listed else "the kernel has no windows"
        message = f"calls cannot choose boundary {boundary!r}: {allowed}"
        yield Fault(("example", "boundary"), message)


def python_names(kind: str, name: str, params: Mapping[str, tuple[str, ...]]) -> Iterator[Fault]:
    """Check that a kernel of a spec file can become a Python function.

    Parameters
    ----------
    kind, name : str
        Of the kernel.
    params : mapping of str to tuple of str
        Field to the names of the parameters it declares.
    """
    if is_python_keyword(name):
        yield Fault(("name",), f"Invalid kernel name {name!r}: a Python keyword", at_key=True)
    for field, names in params.items():
        for word in names:
            if is_python_keyword(word):
                message = f"{word!r} is a Python keyword; choose another parameter name"
                yield Fault((field,), message, word=word)
            elif (field, names) == ("outputs", ("out",)):
                continue  # which it means by keyword too
            elif word in _CALL_KEYWORDS[kind]:
                message = f"{word!r} is a keyword argument of every {kind} function"
                yield Fault((field,), f"{message}; choose another parameter name", word=word)


def call_keywords(kind: str) -> tuple[str, ...]:
    """Return the keyword arguments of every generated function of a kind."""
    return _CALL_KEYWORDS[kind]


def is_python_keyword(word: str) -> bool:
    """Return whether `word` cannot be a name in Python."""
    return keyword.iskeyword(word)
