"""Raw kernels that are called like functions: their specs say how they are launched.

A `RawFunction` fills in missing arguments by the expressions of `kspec.model.raw.launch_rules`.
They are compiled to one function, which for ``float* x, int n`` with ``grid = "ceil_div(n,
block.x)"``, ``block = "256"`` and ``defaults = { n = "x.size" }`` is::

    def configure(grid, block, args, shared_mem, template=()):
        try:
            (a0, a1, ) = args
            s0 = shape_of(a0)
            if a1 is None: a1 = prod(s0)
            v1 = a1 if type(a1) is int else number(1, a1)
            if block is None:
                b0 = 256
                ...

Arrays that are returned are allocated before block and grid; integers of a C++ template are
parameters behind all others.  Whatever is out of the ordinary is worked out again step by step,
which says what is wrong.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from kspec.errors import KspecError, shorten
from kspec.model.declaration import RawDeclaration
from kspec.model.raw.expressions import Expression
from kspec.model.raw.launch_rules import BUILTINS
from kspec.model.signature import CParam
from kspec.runtime.callcache.codegen import make_function
from kspec.runtime.driver.launch import NO_OPTIONS, LaunchOptions
from kspec.runtime.libraries.untraced import untraced
from kspec.runtime.modules.loader import KernelLoader
from kspec.runtime.raw.call import more_of
from kspec.runtime.raw.call_cache import PreparedRaw
from kspec.runtime.raw.completion import (
    MOST,
    Completion,
    Configured,
    Sizes,
    itemsize_of,
    shape_of,
)
from kspec.runtime.raw.declared import RawCallable
from kspec.runtime.raw.measured import measured_template
from kspec.runtime.raw.untyped_args import listed_arguments

Configure = Callable[
    [Sizes | None, Sizes | None, Sequence[Any], int | None, Sequence[Any]], Configured
]


class RawFunction(RawCallable):
    """A raw kernel whose spec says how it is launched; what a call says goes first."""

    def _declare(self, declaration: RawDeclaration, loader: KernelLoader) -> None:
        super()._declare(declaration, loader)
        names = [param.name for param in declaration.params or ()]
        self._returned = tuple(map(names.index, declaration.rules.returned))

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value
            for name, value in vars(self).items()
            if name not in ("_configure", "_completion")
        }

    @functools.cached_property
    def _completion(self) -> Completion:
        return Completion(self.declaration)

    @functools.cached_property
    def _configure(self) -> Configure:
        return make_configure(self._completion)

    @untraced
    def __call__(
        self,
        grid: Sizes | None,
        block: Sizes | None,
        args: Sequence[Any],
        *,
        shared_mem: int | None = None,
        stream: Any = None,
        cluster: tuple[int, ...] | None = None,
        pdl: bool = False,
        sanitize: str | None = None,
        order: str | None = None,
        timeout: float | None = None,
        template: Sequence[int | None] = (),
    ) -> Any:
        """Launch the kernel.

        Parameters and errors are those of `RawCallable`; grid, block, shared memory, and arguments
        with a default, follow from the spec where they are None.  So do `template`, the integers
        of the C++ template, and arrays that the spec returns.

        Returns
        -------
        array, tuple of arrays or None
            The arrays that the spec returns: new ones, of the library of the first array argument,
            where the argument is None.

        Raises
        ------
        LaunchError
            If an expression of the spec has no value that can be launched, or the call chooses
            what the spec fixes.
        ShapeError
            If an array that the spec returns is given, and has another shape.
        """
        try:
            given = args
            if self._returned and type(args) is not tuple:
                given = args = tuple(args)
            if self.tuned and all(one is None for one in template):
                template = measured_template(self.tuned, self.declaration, args)
            grid, block, args, shared_mem, values = self._configure(
                grid, block, args, shared_mem, template
            )
            if sanitize is None and order is None and timeout is None:
                more = None
                if values or cluster is not None or pdl:
                    more = more_of(self.name, cluster, pdl, values)
                self._call_cache.last(self, grid, block, args, shared_mem, stream, more)
            else:
                options = LaunchOptions(
                    stream, shared_mem, cluster, pdl, sanitize, order, timeout, values
                )
                self.prepare(grid, block, args, options).run()
            return self._results(given, args, stream) if self._returned else None
        except KspecError as error:
            shorten(error)
            raise

    def _results(self, given: Sequence[Any], args: Sequence[Any], stream: Any) -> Any:
        """Return the arrays that the spec returns; those that were given as they are."""
        finish = self._completion.outputs.finish
        found = [
            args[k] if given[k] is not None else finish(args[k], given, args, stream)
            for k in self._returned
        ]
        return found[0] if len(found) == 1 else tuple(found)

    def prepare(
        self,
        grid: Any,
        block: Any,
        args: Any,
        options: LaunchOptions = NO_OPTIONS,
    ) -> PreparedRaw:
        """Check a call, with parameters and errors as those of the call."""
        if self.declaration.rules.fixed or self._completion.template:
            args = listed_arguments(self.name, args)
            grid, block, args, shared_mem, values = self._completion(
                grid, block, args, options.shared_mem, options.template
            )
            options = replace(options, shared_mem=shared_mem, template=values)
        return super().prepare(grid, block, args, options)


def make_configure(full: Completion) -> Configure:
    """Return the function that completes the calls of a kernel."""
    names: dict[str, Any] = {
        **BUILTINS,
        "in_full": full,
        "index": operator.index,
        "itemsize_of": itemsize_of,
        "new": full.outputs.make,
        "number": full.number,
        "shape_of": shape_of,
        **{f"d{position}": number for position, number in full.constants.items()},
    }
    return make_function(render_configure(full), names, ((),))


def render_configure(full: Completion) -> str:
    """Return the text of a function that does the same as `full`, or leaves it to that."""
    rules, count = full.parsed, len(full.params)
    own = count - len(full.template)
    read = {"s": "shape_of", "i": "itemsize_of"}
    lines = [
        "if type(args) is not tuple: args = tuple(args)",
        f"({''.join(f'a{k}, ' for k in range(count))}) = "
        + ("(*args, *template)" if full.template else "args"),
        *(f"if {name} is not None: raise ValueError" for name in full.fixed),
        *(
            f"{letter}{k} = {read[letter]}(a{k})"
            for letter, k in full.used
            if letter in read and k not in rules.returns
        ),
    ]
    numbers = {k: _render_number(k, full.params[k]) for letter, k in full.used if letter == "v"}
    defaults = {k: f"d{k}" for k in full.constants if k in full.implied}
    # Integers of the template with one value do not depend on anything.
    lines += [f"if a{k} is None: a{k} = {text}" for k, text in defaults.items()]
    lines += [numbers[k] for k in defaults]
    early = set(defaults)
    defaults = {k: one.python for k, one in rules.defaults.items()}
    defaults |= {k: f"d{k}" for k in full.constants if k not in early}
    # A default may depend on numbers that have none.
    lines += [text for k, text in numbers.items() if k not in defaults and k not in early]
    lines += [f"if a{k} is None: a{k} = {text}" for k, text in defaults.items()]
    lines += [text for k, text in numbers.items() if k in defaults]
    for k, shape in rules.returns.items():
        lines += _render_output(k, shape, full.used)
    lines += _render_extents("block", rules.block, full.used)
    lines += _render_extents("grid", rules.grid, full.used)
    if rules.shared_mem:
        lines += [
            f"shared = {rules.shared_mem.python} if shared_mem is None else shared_mem",
            "if shared < 0: raise ValueError",
        ]
    else:
        lines += ["shared = 0 if shared_mem is None else shared_mem"]
    values = "".join(f"v{k}, " if k in numbers else f"a{k}, " for k in range(own))
    template = "".join(f"v{k}, " for k in range(own, count))
    return "\n".join(
        [
            "def configure(grid, block, args, shared_mem, template):",
            "    try:",
            *(f"        {line}" for line in lines),
            f"        return all_grid, all_block, ({values}), shared, ({template})",
            "    except Exception:",
            "        return in_full(grid, block, args, shared_mem, template)",
        ]
    )


def _render_output(
    position: int, shape: Sequence[Expression], used: Sequence[tuple[str, int]]
) -> list[str]:
    """Return the lines that make an output, or check the one that is given."""
    extents = "".join(f"{one.python}, " for one in shape)
    lines = [
        f"s{position} = ({extents})",
        f"if a{position} is None:",
        *([f"    if min(s{position}) < 0: raise ValueError"] if shape else []),
        f"    a{position} = new({position}, s{position}, args)",
        f"elif shape_of(a{position}) != s{position}: raise ValueError",
    ]
    read_size = ("i", position) in used
    return [*lines, *([f"i{position} = itemsize_of(a{position})"] if read_size else [])]


def _render_number(position: int, param: CParam) -> str:
    kind = "bool" if param.type == "bool" else "int"
    value = f"a{position}"
    return f"v{position} = {value} if type({value}) is {kind} else number({position}, {value})"


def _render_extents(
    name: str, rules: Sequence[Expression], used: Sequence[tuple[str, int]]
) -> list[str]:
    """Return the lines that set ``all_<name>``, and the extents that other expressions see."""
    letter = name[0]
    seen = [axis for one, axis in used if one == letter]
    unpack = f"{letter}0, {letter}1, {letter}2 = map(index, (*{name}, 1, 1)[:3])"
    given = [f"all_{name} = {name}", *([unpack] if seen else [])]
    if not rules:
        return given
    extents = [f"{letter}{axis}" for axis in range(len(rules))]
    limits = zip(extents, MOST[name], strict=False)
    fits = [f"0 < {extent} <= {most}" for extent, most in limits]
    return [
        f"if {name} is None:",
        *(f"    {extent} = {one.python}" for extent, one in zip(extents, rules, strict=True)),
        *(f"    {letter}{axis} = 1" for axis in seen if axis >= len(rules)),
        f"    if not ({' and '.join(fits)}): raise ValueError",
        f"    all_{name} = ({', '.join(extents)},)",
        "else:",
        *(f"    {line}" for line in given),
    ]
