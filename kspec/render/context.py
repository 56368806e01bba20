"""A spec in, the strings its template needs out: frozen, so a template cannot compute.

`elementwise_context`, `reduction_context` and `raw_context` each serve the template of the same
name; `kspec.render.parameters` has the C++ of parameters, `kspec.render.neighbours` that of windows
and adjoints. `kspec.render.environment` puts contexts and templates together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from kspec.cpp.assignment import assigns_first, only_assigns
from kspec.cpp.directives import Directive, directives_of
from kspec.cpp.fragments import identifiers
from kspec.cpp.options import macro_names
from kspec.cpp.preambles import needs_global_scope
from kspec.cpp.tokens import newlines
from kspec.dataclass import dataclass
from kspec.model import dtypes
from kspec.model.declaration import GeneratedDeclaration, ReductionDeclaration
from kspec.render import parameters
from kspec.render.dependent import as_type
from kspec.render.dimensions import core_macro_ends, core_macros, group_names
from kspec.render.fragments import Fragment, FragmentOrigin
from kspec.render.layers import layers_context
from kspec.render.neighbours import AdjointContext, adjoint_context, window_scope, window_tile
from kspec.render.pairs import pairs_context
from kspec.render.variants import Variants
from kspec.spec.models import ElementwiseSpec, RawSpec, ReductionSpec
from kspec.spec.neighbours.samples import with_sample_macros

Binding = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class PreambleScope:
    """Scope of the preamble of a kernel.

    A kernel made in Python has it in the global namespace, as in CuPy. Kernels of one spec file may
    have helpers of the same name, so that each preamble gets a namespace, unless it has text that
    C++ allows only in the global one.

    Attributes
    ----------
    scope : str
        Name of the namespace; empty: the global one.
    typedefs : tuple of str
        The type placeholders as typedefs, which only text for one binding can have.
    """

    scope: str = ""
    typedefs: tuple[str, ...] = ()

    @classmethod
    def of(cls, spec: ElementwiseSpec | ReductionSpec, binding: Binding | None) -> PreambleScope:
        """Return the place of a spec's preamble."""
        if binding is None:
            return cls("" if needs_global_scope(spec.preamble) else _scope(spec.name))
        types = [(letter, dtypes.lookup(dtype).ctype) for letter, dtype in binding]
        types += _types_by_number(spec, dict(types))
        return cls(typedefs=tuple(f"typedef {ctype} {name};" for name, ctype in types))


@dataclass(frozen=True)
class ElementwiseContext:
    """Context of ``elementwise.cu.j2``."""

    name: str
    signature: str
    head: tuple[str, ...]
    tail: tuple[str, ...]
    template_params: str
    operands: int
    arguments: tuple[str, ...]
    scope: str
    typedefs: tuple[str, ...]
    preamble: Fragment
    loop_prep: Fragment
    operation: Fragment
    after_loop: Fragment
    before_loop: tuple[str, ...]
    in_loop: tuple[str, ...]
    after_operation: tuple[str, ...]
    in_place: bool
    index: str
    parameters: str
    operand_names: str
    tile: str = ""
    capture: str = "&"
    adjoint: AdjointContext | None = None
    variants: Variants | None = None
    template: str = "elementwise.cu.j2"


@dataclass(frozen=True)
class ReductionContext:
    """Context of ``reduction.cu.j2``."""

    name: str
    signature: str
    head: tuple[str, ...]
    tail: tuple[str, ...]
    template_params: str
    inputs: int
    outputs: int
    arguments: tuple[str, ...]
    scope: str
    typedefs: tuple[str, ...]
    preamble: Fragment
    op_scope: str
    op_template: str
    macros: tuple[str, ...]
    macro_ends: tuple[str, ...]
    op_type: str
    accumulator: str
    synonyms: tuple[str, ...]
    members: tuple[str, ...]
    member_names: tuple[str, ...]
    identity: Fragment
    identity_locals: tuple[str, ...]
    map: Fragment
    map_locals: tuple[str, ...]
    parameters: str
    items: str
    input_names: str
    input_types: str
    output_names: str
    indexed: bool
    counted: bool
    strict: bool
    joins: str
    reduce: Fragment
    reduce_locals: tuple[str, ...]
    post_map: Fragment
    post_locals: tuple[str, ...]
    template: str = "reduction.cu.j2"


@dataclass(frozen=True)
class RawContext:
    """Context of ``raw.cu.j2``."""

    names: str
    code: Fragment
    checks: tuple[str, ...] = ()
    head: tuple[str, ...] = ()
    tail: tuple[str, ...] = ()
    template: str = "raw.cu.j2"


def _types_by_number(
    spec: ElementwiseSpec | ReductionSpec, placeholders: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield the names that CuPy's ufuncs and reductions have for types, if the kernel uses them."""
    words = spec.words.union(identifiers(spec.preamble))
    for side, signature in (("in", spec.inputs), ("out", spec.outputs)):
        for number, param in enumerate(signature):
            ctype = param.type
            if not param.is_placeholder:
                ctype = dtypes.lookup(param.type).ctype
            for name in (f"{side}{number}_type", f"type_{side}{number}_raw"):
                if name in words and ctype not in placeholders:
                    yield name, ctype
                elif name in words:
                    yield name, placeholders[ctype]


# What CuPy's reductions call the accumulator and an index, and the flat index of an element.
_SYNONYMS = {
    "_type_reduce": "typedef _Acc _type_reduce;",
    "IndexT": "typedef ptrdiff_t IndexT;",
}
_FLAT = "_J * _out_ind.size() + _i"
_FLAT_INDEX = f"const ptrdiff_t _j = {_FLAT};"
_SEGMENT = "const ptrdiff_t _segment = _i;"


Context = ElementwiseContext | ReductionContext | RawContext


def without_preamble(context: Context, repeated: bool) -> Context:
    """Return a kernel without its preamble, if an earlier kernel has the same one."""
    if isinstance(context, RawContext) or not repeated:
        return context
    return replace(context, preamble=Fragment("", ""))


def global_text(context: Context) -> str:
    """Return the preamble that a kernel has in the global namespace, and the macros in front."""
    if isinstance(context, RawContext) or context.scope:
        return ""
    macros = (line for line in context.head if not _includes(line))
    return "\n".join([*macros, context.preamble.text]) if context.preamble else ""


def included(lines: Iterable[str]) -> tuple[str, ...]:
    """Return those of some lines that are ``#include`` directives."""
    return tuple(line for line in lines if _includes(line))


def _includes(text: str) -> list[Directive]:
    """Return the ``#include`` directives of a text."""
    return [one for one in directives_of(text) if one.word == "include"]


def elementwise_context(
    spec: ElementwiseSpec, origin: FragmentOrigin, binding: Binding | None
) -> ElementwiseContext:
    """Return the strings of an elementwise kernel.

    Parameters
    ----------
    spec : ElementwiseSpec
        The kernel.
    origin : Origin
        Where its fragments stand.
    binding : sequence of (str, str) or None
        The only binding this text will be compiled for, if the kernel is alone in its translation
        unit: type placeholders are typedefs then, for the preamble too.
    """
    declaration = spec.declaration()
    place = PreambleScope.of(spec, binding)
    head, tail = _surroundings(spec, place)
    sampled = tuple(name for name in spec.samples if name in spec.windows)
    head = tuple(with_sample_macros(sampled, line) for line in head)
    texts = spec.fragments | {"operation": with_sample_macros(sampled, spec.operation)}
    fragments = {field: origin.fragment(field, text) for field, text in texts.items()}
    operands = [param for param in declaration.params if not param.raw]
    before = ["const ptrdiff_t n = _elements.size();"] if declaration.counts else []
    before += [
        parameters.scalar(param) for param in spec.inputs if param.name in declaration.scalars
    ]
    inside = []
    index = _index_name(spec, declaration.ordered)
    if "_ind" in spec.words:
        before.append(f"kspec::Indexer<kspec::Elements<_Layout, {len(operands)}>> _ind(_elements);")
        inside.append("_ind.set(i);")
    in_place = declaration.in_place and not declaration.windows and not declaration.has_core
    if in_place:
        inside += [f"const auto _at = KSPEC_AT({index}, _elements);"] if operands else []
        inside += [
            parameters.element(param, f"_at[{number}]", output=param in declaration.outputs.params)
            for number, param in enumerate(operands)
        ]
    items = [parameters.loop_item(declaration, param) for param in operands]
    tile = ""
    if declaration.windows and not spec.adjoint:
        tile = window_tile(declaration.windows, operands)
    windows = window_scope(spec, declaration.windows)
    preamble = _preamble(spec, origin, place, sampled)
    return ElementwiseContext(
        name=spec.name,
        signature=_signature(declaration),
        head=head,
        tail=tail,
        template_params=parameters.template_params(declaration, bound=binding is not None),
        operands=len(operands),
        arguments=parameters.arguments(declaration, _assigned(spec)),
        scope=place.scope if preamble else "",
        typedefs=place.typedefs,
        preamble=preamble,
        before_loop=tuple(before),
        in_loop=(
            *inside,
            *windows.before,
            *group_names(declaration.threads, spec.words),
            *core_macros(declaration.params),
        ),
        after_operation=(*windows.after, *core_macro_ends(declaration.params)),
        in_place=in_place,
        index=index,
        parameters=", ".join([f"const ptrdiff_t {index}", *items]),
        operand_names="".join(f", {parameters.argument_name(param)}" for param in operands),
        tile=tile,
        # `_ind` is set for each element.
        capture="KSPEC_CAPTURE" if tile and "_ind" not in spec.words else "&",
        adjoint=None if spec.adjoint is None else adjoint_context(spec, spec.adjoint),
        variants=pairs_context(spec, fragments["operation"], binding)
        or layers_context(spec, fragments["operation"]),
        loop_prep=fragments["loop_prep"],
        operation=fragments["operation"],
        after_loop=fragments["after_loop"],
    )


def reduction_context(
    spec: ReductionSpec, origin: FragmentOrigin, binding: Binding | None
) -> ReductionContext:
    """Return the strings of a reduction kernel; parameters as for `elementwise_context`."""
    declaration = spec.declaration()
    inputs = [param for param in declaration.inputs if not param.raw]
    outputs = list(declaration.outputs)
    identity = origin.fragment("identity", spec.identity or "")
    reduce = origin.fragment("reduce", spec.reduce)
    post_map = origin.fragment("post_map", spec.post_map)
    arguments = parameters.arguments(declaration, declaration.outputs.names)
    op_template, op_arguments = _op_template(declaration, bound=binding is not None)
    macros, macro_ends = core_macros(declaration.params), core_macro_ends(declaration.params)
    place = PreambleScope.of(spec, binding)
    head, tail = _surroundings(spec, place)
    preamble = _preamble(spec, origin, place)
    post_locals = _scalars(declaration, post_map)
    post_locals += _indexers(spec, spec.post_map, {"_in_ind": "", "_out_ind": "_i"})
    post_locals += [
        parameters.element(param, f"_at[{len(inputs) + number}]", output=True)
        for number, param in enumerate(outputs)
    ]
    items = [parameters.map_item(param) for param in inputs]
    input_names = [parameters.argument_name(param) for param in inputs]
    return ReductionContext(
        name=spec.name,
        signature=_signature(declaration),
        head=head,
        tail=tail,
        template_params=parameters.template_params(declaration, bound=binding is not None),
        inputs=len(inputs),
        outputs=len(outputs),
        arguments=arguments,
        scope=place.scope if preamble else "",
        typedefs=place.typedefs,
        preamble=preamble,
        op_scope=_scope(spec.name),
        op_template=op_template,
        macros=macros,
        macro_ends=macro_ends,
        op_type=f"{_scope(spec.name)}::_Op{op_arguments}",
        accumulator=_accumulator(declaration),
        synonyms=tuple(text for word, text in _SYNONYMS.items() if word in spec.words),
        members=tuple(argument.removeprefix("const ") for argument in arguments),
        member_names=parameters.argument_names(declaration),
        identity=identity,
        identity_locals=tuple(_scalars(declaration, identity)),
        map=origin.fragment("map", spec.map),
        map_locals=(
            *((_FLAT_INDEX,) if "_j" in spec.words else ()),
            *((_SEGMENT,) if "_segment" in spec.words else ()),
            *_indexers(spec, spec.map, {"_in_ind": _FLAT, "_out_ind": "_i"}),
        ),
        parameters=", ".join([*items, "ptrdiff_t _J", "ptrdiff_t _i"]),
        items=", ".join(
            [*(f"{name}.item(_at[{k}])" for k, name in enumerate(input_names)), "_J", "_i"]
        ),
        input_names="".join(f", {name}" for name in input_names),
        input_types="".join(
            f", {argument.removeprefix('const ').removesuffix(f' {name}')}"
            for argument in arguments
            for name in input_names
            if argument.endswith(f" {name}")
        ),
        # Whether the map needs to know where an element is.
        indexed=declaration.needs_places,
        # Whether the post-map may ask how many elements an output has.
        counted=declaration.counted,
        strict=declaration.strict_keys,
        joins=declaration.joins or "OTHER",
        output_names=", ".join(map(parameters.argument_name, outputs)),
        reduce=reduce,
        reduce_locals=tuple(_scalars(declaration, reduce)),
        post_map=post_map,
        post_locals=tuple(post_locals),
    )


def raw_context(
    specs: Sequence[RawSpec], origin: FragmentOrigin, checks: tuple[str, ...] = ()
) -> RawContext:
    """Return the strings of raw kernels with the same code.

    `origin` is that of the code, `checks` are the lines that check its structs.
    """
    names = [name for spec in specs for name in spec.declaration().name_expressions]
    listed = ", ".join(dict.fromkeys(names))
    return RawContext(listed, origin.fragment("code", specs[0].text), checks)


def _surroundings(
    spec: ElementwiseSpec | ReductionSpec, place: PreambleScope
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the lines before and after a kernel: its macros and includes, the macros' end.

    Includes cannot stand in a preamble's namespace, and the macros are for this kernel only. One
    that is known already (``-DM_PI=3``, or twice the same) gets its new value without a warning.
    """
    ends = tuple(f"#undef {name}" for name in macro_names(spec.macros))
    preamble = spec.preamble if place.scope else ""
    includes = (preamble[one.start : one.end].strip() for one in _includes(preamble))
    return (*ends, *spec.macros, *includes), ends


def _signature(declaration: GeneratedDeclaration) -> str:
    return f"{declaration.inputs} -> {declaration.outputs}"


def _scope(name: str) -> str:
    return f"kspec_{name}"


def _assigned(spec: ElementwiseSpec) -> tuple[str, ...]:
    """Return the outputs whose old values the operation cannot see."""
    if spec.adjoint is not None:
        return spec.outputs.names
    return tuple(
        param.name
        for param in spec.outputs
        if (only_assigns if param.core else assigns_first)(
            param.name, spec.operation, spec.expansion
        )
    )


def _index_name(spec: ElementwiseSpec, ordered: bool) -> str:
    """Return the name of the variable that numbers the elements.

    Elements that are visited in another order have none that an operation may see. Where a macro
    of a header may name it, its own name is taken away, so that the compiler says so.
    """
    hidden = spec.expansion.hidden(identifiers(spec.operation))
    return "i" if ordered or hidden is not None else "_element"


def _scalars(declaration: ReductionDeclaration, fragment: Fragment) -> list[str]:
    """Inputs that a fragment without elements reads: the dispatcher insists on scalars."""
    return [
        parameters.scalar(param)
        for param in declaration.inputs
        if param.name in declaration.scalars and fragment.mentions(param.name)
    ]


def _indexers(spec: ReductionSpec, text: str, elements: Mapping[str, str]) -> list[str]:
    """Return the multi-indices that an expression reads, each at its element."""
    words = identifiers(text, *spec.macro_texts)
    used = [name for name in spec.indexers if name in words]
    return [line for name in used for line in parameters.indexer(name, elements[name])]


def _op_template(declaration: ReductionDeclaration, bound: bool) -> tuple[str, str]:
    """Return the template head of the operation's struct, and the arguments to name it by."""
    types = [] if bound else parameters.type_params(declaration)
    params = [*types, *parameters.raw_params(declaration), *parameters.size_params(declaration)]
    if not params:
        return "", ""
    names = ", ".join(param.split()[-1] for param in params)
    return f"template <{', '.join(params)}>", f"<{names}>"


def _accumulator(declaration: ReductionDeclaration) -> str:
    if declaration.accumulator:
        return as_type(declaration.accumulator)
    return parameters.as_accumulator(declaration.outputs.params[0])


def _preamble(
    spec: ElementwiseSpec | ReductionSpec,
    origin: FragmentOrigin,
    place: PreambleScope,
    sampled: Sequence[str] = (),
) -> Fragment:
    """Return the preamble as it stands in its place; its macros may sample windowed inputs."""
    text = with_sample_macros(sampled, spec.preamble, macros_only=True)
    # Includes are replaced by empty lines: the lines after them keep their numbers.
    for one in reversed(_includes(text) if place.scope else []):
        text = text[: one.start] + newlines(text[one.start : one.end]) + text[one.end :]
    return origin.fragment("preamble", text)
