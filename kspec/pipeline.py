"""Spec to source to image: the one line that ahead-of-time and lazy compilation share.

`loader_for` is the lazy end: a `KernelLoader` that renders and compiles a Python-made spec when
a specialization is first called.  `kspec.build.plan` is the ahead-of-time end.
"""

from __future__ import annotations

from dataclasses import replace

from kspec.render import render_specs
from kspec.runtime.provider import CompilingProvider, KernelLoader, Wanted
from kspec.spec.models import Spec
from kspec.stages import CudaSource


def lazy_source(spec: Spec, wanted: Wanted) -> CudaSource:
    """Return the source of one specialization of a spec that has no file."""
    source = render_specs([spec], f"{spec.name}.cu", wanted.binding)
    return replace(source, name_expressions=(wanted.name_expression,))


def loader_for(spec: Spec) -> KernelLoader:
    """Return the loader of a spec that has no file: every specialization is compiled lazily."""
    return KernelLoader([CompilingProvider(lambda wanted: lazy_source(spec, wanted))])
