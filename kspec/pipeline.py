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
from kspec.model.stages import CudaSource
from kspec.runtime.driver import api as driver
from kspec.runtime.modules.provider import CompilingProvider, KernelLoader, Wanted, made_in_python
from kspec.spec.models import Spec

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
    driver.WARM_UP.add(prepare)
    return KernelLoader([CompilingProvider(LazySource(spec))], made_in_python)


def prepare() -> None:
    """Import and start what the first kernel that is compiled for a GPU needs: 0.1 s of work."""
    if config.jit_mode() == "never":
        return
    from kspec.compiler.cuda import nvrtc
    from kspec.render.environment import load_templates

    nvrtc.nvrtc_build()  # part of every key; its first compilation starts the compiler
    load_templates()
