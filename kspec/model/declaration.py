"""The part of a spec that callers need, without the spec: frozen, standard library only.

A spec (Pydantic, author time) becomes a declaration; the manifest stores it, and the runtime
calls kernels by it.  The CUDA fragments are not here: they have become source by then.

>>> from kspec.model.signature import Param, Signature
>>> sq = ElementwiseDeclaration("sq", Signature((Param("T", "x"),)), Signature((Param("T", "y"),)))
>>> sq.placeholders
('T',)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from kspec.dataclass import dataclass
from kspec.errors import ArgumentTypeError
from kspec.model.signature import CParam, Param, Signature

if TYPE_CHECKING:
    from kspec.model.neighbours.samples import Sample
    from kspec.model.neighbours.windows import Sizes, Window
    from kspec.model.raw.launch_rules import LaunchRules
    from kspec.model.raw.template import RawTemplate

# Sums that outputs of a reduction may be (`ReductionDeclaration.sums`).
SUMS_OF_ELEMENTS, SUMS_OF_VALUES, MEANS = "elements", "values", "means"
PLACES = 5  # positional parameters of calls that are written out, which makes them faster


@dataclass(frozen=True)
class _Generated:
    """Base of elementwise and reduction kernels.

    Attributes
    ----------
    reduce_dims : bool
        Whether axes may be merged where the kernel sees how many there are.
    backward : str
        The kernel of the same package that computes its gradients; empty: there is none.
    numbers : tuple of str
        Raw inputs that the kernel does not index, so that a number may be given.
    sizes : tuple of (str, tuple of int)
        Integer placeholders, each with the values that are precompiled: those that calls give by
        name, and those that are core dimensions of inputs.
    updates : tuple of str
        Outputs that begin with their old values, so that calls must give them: they are read before
        they are set, or there is no operation.
    subscripts : bool
        A text indexes an array of its own, or a pointer.
    """

    name: str
    inputs: Signature
    outputs: Signature
    doc: str = ""
    reduce_dims: bool = field(default=True, kw_only=True)
    backward: str = field(default="", kw_only=True)
    numbers: tuple[str, ...] = field(default=(), kw_only=True)
    sizes: Sizes = field(default=(), kw_only=True)
    updates: tuple[str, ...] = field(default=(), kw_only=True)
    subscripts: bool = field(default=False, kw_only=True)

    @property
    def params(self) -> Signature:
        """Inputs, then outputs."""
        return Signature(self.inputs.params + self.outputs.params)

    @property
    def placeholders(self) -> tuple[str, ...]:
        """Distinct type placeholders, inputs first."""
        return self.params.placeholders

    @property
    def sides(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of the parameters that are read, and of those that are written."""
        return self.inputs.names, self.outputs.names

    @property
    def overwrites(self) -> str:
        """The input that the kernel writes to, as a reason for messages; empty if there is none."""
        written = next((param.name for param in self.inputs if param.non_const), "")
        return f"it writes to {written}, which is _non_const" if written else ""

    @property
    def has_core(self) -> bool:
        """Whether parameters have core dimensions."""
        return any(param.core for param in self.params)

    @property
    def size_names(self) -> tuple[str, ...]:
        """Integer placeholders."""
        return tuple(name for name, _ in self.sizes)

    @property
    def call_options(self) -> tuple[str, ...]:
        """Keyword arguments of calls that only some kernels have: sizes, then the boundary."""
        return ()

    def check_made_outputs(self) -> None:
        """Raise `ArgumentTypeError` if outputs need old values, which new arrays do not have."""
        if self.updates:
            name = self.updates[0]
            raise ArgumentTypeError(
                f"{self.name}: output {name} begins with its old value, which a new array does not "
                f"have; pass out=, or let the kernel set it first ('{name} = ...')"
            )

    def shared_options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keyword arguments of a call that calls of this kernel have too.

        Parameters
        ----------
        given : mapping of str to object
            Those of a call of this kernel, or of the one whose gradients it computes. None: not
            given.
        """
        return {name: given[name] for name in self.call_options if given.get(name) is not None}


@dataclass(frozen=True)
class ElementwiseDeclaration(_Generated):
    """Declaration of an elementwise kernel.

    Attributes
    ----------
    ordered : bool
        The operation reads ``i``, ``_ind``, ``_raw_<name>`` or the thread's index, so elements must
        be visited under their C-order index and axes may be merged but not permuted.
    no_return, return_tuple : bool
        CuPy's options for the return value.
    raw_views : tuple of str
        Parameters whose arrays the operation reads as ``_raw_<name>``.
    scalars : tuple of str
        Inputs read before or after the loop; they must be given as scalars.
    in_place : bool
        The operation works on memory, not on values: it indexes arrays by itself, takes the
        address of an output, or is atomic; or `single`.
    single : bool
        A thread has one element only, in blocks of CuPy's size: the operation has a `return`,
        changes what ``loop_prep`` declares, or reads the thread's index; or there is an
        ``after_loop``.
    counts : bool
        The operation reads ``n``, the number of elements.
    forward : str
        The kernel whose expressions for gradients made this one; empty for all that are written.
    windows : tuple of Window
        Inputs that the operation reads at offsets.
    adjoint : Window or None
        The window of the forward kernel through which the gradient, the only output, goes back.
    samples : tuple of Sample
        Raw inputs that the operation reads between their elements.
    threads : int
        Number of threads that have an item of core dimensions together.
    """

    ordered: bool = False
    no_return: bool = False
    return_tuple: bool = False
    raw_views: tuple[str, ...] = ()
    scalars: tuple[str, ...] = ()
    in_place: bool = False
    single: bool = False
    counts: bool = False
    forward: str = ""
    windows: tuple[Window, ...] = ()
    adjoint: Window | None = None
    samples: tuple[Sample, ...] = ()
    threads: int = 1

    kind = "elementwise"

    @property
    def all_windows(self) -> tuple[Window, ...]:
        """The windows of inputs, and the one that the kernel is the adjoint of."""
        return self.windows if self.adjoint is None else (*self.windows, self.adjoint)

    @property
    def takes_boundary(self) -> bool:
        """Whether calls have a keyword argument for what lies outside of inputs."""
        return bool(self.all_windows or self.samples)

    @property
    def has_neighbours(self) -> bool:
        """Whether calls bind windows, samples or integer placeholders."""
        return bool(self.sizes) or self.takes_boundary

    @property
    def given_sizes(self) -> Sizes:
        """The integer placeholders that calls give by name: arguments do not decide them."""
        if not self.sizes:
            return ()
        from kspec.model.dimensions import core_names

        decided = core_names(self.inputs)
        return tuple(one for one in self.sizes if one[0] not in decided)

    @property
    def call_options(self) -> tuple[str, ...]:
        """Keyword arguments of calls that only some kernels have: sizes, then the boundary."""
        names = (name for name, _ in self.given_sizes)
        return (*names, *(("boundary",) if self.takes_boundary else ()))

    @property
    def whole(self) -> str:
        """Why blocks of arrays cannot be computed; empty if they can.

        They can with `windows`, but need the neighbours of their elements
        (`kspec.model.neighbours.halos`).
        """
        if self.ordered:
            return (
                "its operation depends on where an element is (i, _ind, _raw_<name> or the thread)"
            )
        if self.counts:
            return "its operation reads n, the number of elements"
        if self.adjoint is not None:
            return f"its operation adds to neighbours of {self.adjoint.param}"
        raw = next((param.name for param in self.outputs if param.raw), "")
        if raw:
            return f"its output {raw} is raw"
        if self.overwrites:
            return self.overwrites
        return "" if self.outputs.params else "it has no outputs"

    def needs_array(self, param: Param) -> bool:
        """Return whether an argument for `param` cannot be a scalar."""
        windowed = (window.param for window in self.windows)
        by_place = param.raw or param.non_const or param.name in (*self.raw_views, *windowed)
        return by_place or bool(param.core)


@dataclass(frozen=True)
class ReductionDeclaration(_Generated):
    """Declaration of a reduction kernel.

    Attributes
    ----------
    has_identity : bool
        Whether reducing nothing has a value.
    ordered : bool
        The map reads ``_J``, ``_i``, an indexer or ``_raw_<name>``, so axes keep their C order.
    raw_views : tuple of str
        Parameters whose arrays the expressions read as ``_raw_<name>``.
    indexers : tuple of str
        Those of ``_in_ind`` and ``_out_ind`` of which the expressions read more than the size.
    scalars : tuple of str
        Inputs that the reduce or post-map expression reads; they must be given as scalars.
    accumulator : str
        C++ type of the accumulator, or empty: that of the first output (float for half).
    indexed : bool or None
        The map (or the reduce expression, or the identity) depends on where an element is or how
        many there are, so parts of an array cannot be reduced by themselves. None: unknown.
    counts : bool
        The post-map reads how many elements or outputs there are, so a reduction of some of the
        outputs must pass the number of all of them. Their ratio alone is the same for all.
    forms : tuple of str
        Other forms that are precompiled (`kspec.model.forms`).
    joins : str
        The operation of the reduce expression, if it is a known one of numbers: a name of
        `kspec.spec.forms.JOINS`. Empty: another.
    forms_only : bool
        Whether the spec lists these and not ``reduce``, so that there is no reduction along axes.
    counted : bool
        The expressions may ask how many elements an output has.
    strict_keys : bool
        Whether keys that are out of range are errors.
    sums : str
        Sums that the only output is, from which gradients of the other forms follow: ``elements``
        of the only input as they are, ``values`` of the map, or ``means`` of these. Empty: others,
        or the map depends on where an element is.
    loads_outputs : bool
        Whether the post-map may read an output before it sets it.
    """

    has_identity: bool = True
    ordered: bool = False
    raw_views: tuple[str, ...] = ()
    indexers: tuple[str, ...] = ()
    scalars: tuple[str, ...] = ()
    accumulator: str = ""
    indexed: bool | None = None
    counts: bool = False
    forms: tuple[str, ...] = ()
    joins: str = ""
    forms_only: bool = False
    counted: bool = False
    strict_keys: bool = False
    sums: str = ""
    loads_outputs: bool = False

    kind = "reduction"

    @property
    def no_reduce(self) -> str:
        """Why there is no reduction along axes; empty if there is."""
        if not self.forms_only:
            return ""
        listed = ", ".join(self.forms)
        return (
            f"{self.name} has no reduce: its spec lists the forms {listed}; call "
            f"{self.name}.{self.forms[0]}, or add 'reduce' to forms if the reduce expression is "
            "commutative"
        )

    def needs_array(self, param: Param) -> bool:
        """Return whether an argument for `param` cannot be a scalar."""
        arrays = [one for one in self.inputs if one.name not in self.scalars and not one.raw]
        by_place = param.raw or param.non_const or param.name in self.raw_views
        return by_place or bool(param.core) or len(arrays) == 1

    @property
    def needs_places(self) -> bool:
        """Whether more than the post-map depends on where elements are, or how many there are."""
        return self.ordered if self.indexed is None else self.indexed

    @property
    def whole(self) -> str:
        """Why parts of an array cannot be reduced by themselves; empty if they can."""
        if self.needs_places:
            return (
                "its map depends on where an element is (_J, _i, _segment, _in_ind, _out_ind or "
                "_raw_<name>)"
            )
        return "its spec lists forms without 'reduce'" if self.forms_only else self.overwrites


def _no_rules() -> LaunchRules:
    from kspec.model.raw.launch_rules import LaunchRules

    return LaunchRules()


@dataclass(frozen=True)
class RawDeclaration:
    """Declaration of a raw kernel.

    Attributes
    ----------
    name_expressions : tuple of str
        The kernels in it: ``("fx3<float>", "fx3<double>")``, or one plain name.
    params : tuple of CParam or None
        Declared C parameters; None: arguments are passed by CuPy's rules.
    rules : LaunchRules
        Grid, block, shared memory and parameters where the caller does not say.
    structs : tuple of (str, str)
        Structs that parameters have, with their dtypes.
    cooperative : bool
        Whether all blocks are launched so that they can wait for each other.
    backward : str
        The kernel of the same package that computes gradients; empty: there is none.
    """

    name: str
    name_expressions: tuple[str, ...]
    params: tuple[CParam, ...] | None = None
    doc: str = ""
    rules: LaunchRules = field(default_factory=_no_rules)
    structs: tuple[tuple[str, str], ...] = ()
    cooperative: bool = False
    backward: str = ""

    kind = "raw"

    @property
    def signature(self) -> str:
        """Its parameters, and what calls return and choose, in one line."""
        text = "undeclared" if self.params is None else ", ".join(map(str, self.params))
        rules, text = self.rules, f"({text})"
        text += f" -> ({', '.join(rules.returned)})" if rules.returns else ""
        text += f", template <{', '.join(rules.template)}>" if rules.template else ""
        return text + (f", fixed {' and '.join(rules.fixed)}" if rules.fixed else "")

    @property
    def template(self) -> RawTemplate:
        """Its template parameters: types of its parameters, and integers."""
        from kspec.model.raw.template import RawTemplate

        return RawTemplate.of(self.rules.template, self.params or ())

    @property
    def values(self) -> dict[str, tuple[int, ...]]:
        """The integers of the template, with the values that name expressions have."""
        return self.template.known(self.name_expressions)

    @property
    def implied(self) -> dict[str, int]:
        """The integers of the template that have one value only, and no other default."""
        others = dict(self.rules.defaults)
        return {
            name: known[0]
            for name, known in self.values.items()
            if len(known) == 1 and name not in others
        }

    @property
    def sides(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of the parameters that are read, and of those that are written."""
        params = self.params or ()
        written = [param.name for param in params if param.is_written]
        return tuple(one.name for one in params if one.name not in written), tuple(written)


GeneratedDeclaration = ElementwiseDeclaration | ReductionDeclaration
Declaration = ElementwiseDeclaration | ReductionDeclaration | RawDeclaration
