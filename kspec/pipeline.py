"""Spec to source to image: the one line that ahead-of-time and lazy compilation share.

`loader_for` is the lazy end: a `KernelLoader` that renders and compiles a Python-made spec when
a specialization is first called.  `kspec.build.plan` is the ahead-of-time end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kspec.render import render_specs
from kspec.runtime.provider import CompilingProvider, KernelLoader, Wanted
from kspec.spec.models import Spec
from kspec.stages import CudaSource


@dataclass(frozen=True)
class LazySource:
    """The source of one specialization at a time, of a spec that has no file."""

    spec: Spec

    def __call__(self, wanted: Wanted) -> CudaSource:
        """Return the source of a specialization."""
        source = render_specs([self.spec], f"{self.spec.name}.cu", wanted.binding)
        return replace(source, name_expressions=(wanted.name_expression,))


def loader_for(spec: Spec) -> KernelLoader:
    """Return the loader of a spec that has no file: every specialization is compiled lazily."""
    return KernelLoader([CompilingProvider(LazySource(spec))])
