"""Spec to source to image: the one line that ahead-of-time and lazy compilation share.

`declare` and `loader_for` are the lazy end: a kernel's declaration, and a `KernelLoader` that
renders and compiles it when a specialization is first called.  `kspec.build.plan` is the
ahead-of-time end.

The lazy end imports specs, the template engine and the compiler only where it finds no note of
their last results (`kspec.compiler.memo`).  The latter two wait for the first call, or are imported
while the driver starts, whichever comes first.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kspec import config
from kspec.compiler import memo
from kspec.dataclass import dataclass
from kspec.errors import KspecError
from kspec.model.stages import CudaSource, Target
from kspec.runtime import driver
from kspec.runtime.modules.loader import KernelLoader
from kspec.runtime.modules.provider import CompilingProvider, Wanted, made_in_python, user_cache

if TYPE_CHECKING:
    from kspec.spec.models import Spec

for _library in ("pydantic", "jinja2"):
    if importlib.util.find_spec(_library) is None:
        # Said when a kernel is declared, not when it is first called.
        raise ModuleNotFoundError(f"No module named {_library!r}", name=_library)


@dataclass(frozen=True)
class LazySource:
    """The source of one specialization at a time, of a spec that has no file."""

    spec: Spec

    def __call__(self, wanted: Wanted) -> CudaSource:
        """Return the source of a specialization."""
        from kspec.render import render_specs

        source = render_specs([self.spec], f"{self.spec.name}.cu", wanted.binding)
        return replace(source, name_expressions=(wanted.name_expression,))


class FieldsSource:
    """The source of one specialization at a time, of the fields of a spec that is not made yet.

    Parameters
    ----------
    kind : {"elementwise", "reduction"}
        Of the kernel.
    fields : mapping of str to object
        All fields; of Python's own types.
    """

    def __init__(self, kind: str, fields: Mapping[str, Any]) -> None:
        self._kind = kind
        self._fields = fields

    @functools.cached_property
    def spec(self) -> Any:
        """The spec."""
        return spec_of(self._kind, self._fields)

    @property
    def recipe(self) -> str:
        """Digest of all that the source is made of, but for headers (`kspec.compiler.memo`)."""
        return memo.recipe_of(self._kind, self._fields, self._fields["options"])

    def __call__(self, wanted: Wanted) -> CudaSource:
        """Return the source of a specialization."""
        return LazySource(self.spec)(wanted)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._kind, self._fields)


Source = LazySource | FieldsSource


def spec_of(
    kind: str, fields: Mapping[str, Any], arguments: Mapping[str, str] | None = None
) -> Any:
    """Return a spec; parameters and errors as for `kspec.spec.building.build_spec`."""
    from kspec.spec.building import build_spec
    from kspec.spec.models import ElementwiseSpec, ReductionSpec

    models: dict[str, Any] = {one.kind: one for one in (ElementwiseSpec, ReductionSpec)}
    return build_spec(models[kind], arguments, **fields)


def declare(
    kind: str, fields: Mapping[str, Any], arguments: Mapping[str, str]
) -> tuple[Any, Source]:
    """Return the declaration, noted or of the spec, and the source of a kernel.

    Parameters
    ----------
    kind : {"elementwise", "reduction"}
        Of the kernel.
    fields : mapping of str to object
        Those of a spec.
    arguments : mapping of str to str
        What messages call fields that the caller knows under another name.
    """
    try:
        source = FieldsSource(kind, memo.plain_copy(fields))
        recipe, cache = source.recipe, user_cache()
    except (TypeError, KspecError):  # the first call says what is wrong with the cache
        spec = spec_of(kind, fields, arguments)
        return spec.declaration(), LazySource(spec)
    found = memo.recalled_declaration(cache, recipe) if recipe else None
    if found is not None:
        return found, source
    source.spec = spec_of(kind, fields, arguments)
    declaration = source.spec.declaration()
    if recipe:
        memo.remember_declaration(cache, recipe, declaration)
    return declaration, source


def loader_for(spec: Spec) -> KernelLoader:
    """Return the loader of a spec that has no file: every specialization is compiled lazily."""
    return loader_of(LazySource(spec))


def loader_of(source: Source) -> KernelLoader:
    """Return the loader of a source; preparations for its first launch wait for the driver."""
    spec = vars(source).get("spec")
    if spec is None:  # it was noted, and so is its image
        driver.WARM_UP.add(prepare_noted)
    else:
        is_reduction = spec.kind == "reduction"
        driver.WARM_UP.add(prepare_reduction if is_reduction else prepare_elementwise)
    return KernelLoader([CompilingProvider(source)], made_in_python)


def prepare_noted() -> None:
    """Import the modules of a first launch on a GPU whose kernel was compiled before."""
    import kspec.compiler.cuda
    import kspec.runtime.modules.cuda
    import kspec.runtime.schedules.reduction_schedule  # noqa: F401


def prepare_elementwise() -> None:
    """Prepare for the first elementwise kernel that is compiled for a GPU: 0.1 s of work."""
    _prepare("elementwise", operation="y = x")


def prepare_reduction() -> None:
    """Prepare for the first reduction kernel that is compiled for a GPU."""
    _prepare("reduction", map="x", reduce="a + b", post_map="y = a", identity="0")


def _prepare(kind: str, **fields: str) -> None:
    """Make the source and the key of a small kernel, for which the compiler is loaded.

    Imports, templates, headers and dataclasses of other kernels are ready then.
    """
    if config.jit_mode() == "never":
        return
    from kspec.compiler import image_key
    from kspec.render import render_specs

    small = {"name": "small", "inputs": "float32 x", "outputs": "float32 y"}
    spec = spec_of(kind, {**small, **fields})
    image_key(render_specs([spec], "small.cu", ()), Target("compute_80"))
