"""Specs in, CUDA C++ text out: the only package that makes CUDA from specs.

`specialize` decides what is compiled, `context` turns a spec into strings, `environment` runs
the Jinja templates over them.

>>> from kspec.render import render_specs, specializations
"""

from kspec.render.environment import compiler_options, render_file, render_specs
from kspec.render.specialize import specializations

__all__ = ["compiler_options", "render_file", "render_specs", "specializations"]
