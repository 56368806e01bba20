"""Spec to source to image: the one line that ahead-of-time and lazy compilation share.

`loader_for` is the lazy end: a `KernelLoader` that renders and compiles a Python-made spec when
a specialization is first called.  `kspec.build.plan` is the ahead-of-time end.

Declaring a kernel imports no template engine and no compiler: that waits for the first call, or is
done while the driver starts, whichever comes first.
"""

from __future__ import annotations

import importlib.util
from dataclasses import replace

from kspec import config
from kspec.dataclass import dataclass
from kspec.model.stages import CudaSource, Target
from kspec.runtime.driver import api as driver
from kspec.runtime.modules.loader import KernelLoader
from kspec.runtime.modules.provider import CompilingProvider, Wanted, made_in_python
from kspec.spec.building import build_spec
from kspec.spec.models import ElementwiseSpec, ReductionSpec, Spec

if importlib.util.find_spec("jinja2") is None:
    # Said when a kernel is declared, not when it is first called.
    raise ModuleNotFoundError("No module named 'jinja2'", name="jinja2")


@dataclass(frozen=True)
class LazySource:
    """The source of one specialization at a time, of a spec that has no file."""

    spec: Spec

    def __call__(self, wanted: Wanted) -> CudaSource:
        """Return the source of a specialization."""
        from kspec.render import render_specs

        source = render_specs([self.spec], f"{self.spec.name}.cu", wanted.binding)
        return replace(source, name_expressions=(wanted.name_expression,))


def loader_for(spec: Spec) -> KernelLoader:
    """Return the loader of a spec that has no file: every specialization is compiled lazily."""
    is_reduction = isinstance(spec, ReductionSpec)
    driver.WARM_UP.add(prepare_reduction if is_reduction else prepare_elementwise)
    return KernelLoader([CompilingProvider(LazySource(spec))], made_in_python)


def prepare_elementwise() -> None:
    """Prepare for the first elementwise kernel that is compiled for a GPU: 0.1 s of work."""
    _prepare(ElementwiseSpec, operation="y = x")


def prepare_reduction() -> None:
    """Prepare for the first reduction kernel that is compiled for a GPU."""
    _prepare(ReductionSpec, map="x", reduce="a + b", post_map="y = a", identity="0")


def _prepare(model: type[ElementwiseSpec | ReductionSpec], **fields: str) -> None:
    """Make the source and the key of a small kernel, for which the compiler is loaded.

    Imports, templates, headers and dataclasses of other kernels are ready then.
    """
    if config.jit_mode() == "never":
        return
    from kspec.compiler import image_key
    from kspec.render import render_specs

    spec = build_spec(model, name="small", inputs="float32 x", outputs="float32 y", **fields)
    image_key(render_specs([spec], "small.cu", ()), Target("compute_80"))
