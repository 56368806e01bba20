"""A compiled kernel in, a raw spec out: it ships precompiled, and is called like a function.

A spec's kernel has pointers for parameters, so the arrays are C-ordered; what their shapes are, the
spec's defaults say.  For a kernel ``scale(x, a)``::

    extern "C" __global__ void scale(float* x, float a, long long x_0) {
      scale_body(kspec::whole_view<kspec::View<float, 1, true, int>>(x, x_0), a);
    }
"""

from __future__ import annotations

from dataclasses import replace

from kspec.errors import JitTypeError
from kspec.ir.types import ArrayType, BufferType, ctype
from kspec.jit.build_ir import JitProgram
from kspec.spec.building import build_spec
from kspec.spec.models import RawSpec


def raw_spec(built: JitProgram, doc: str) -> RawSpec:
    """Return the spec of a kernel.

    Raises
    ------
    JitTypeError
        For a kernel that takes records by value.
    """
    kernel = built.kernel
    body = replace(kernel, name=f"{kernel.name}_body", kernel=False)
    params: list[str] = []
    extents: list[str] = []
    given: list[str] = []
    defaults: dict[str, str] = {}
    for param, written in zip(kernel.params, built.written, strict=True):
        type_ = param.type
        if not isinstance(type_, ArrayType):
            if str(type_).startswith(("{", "V")):
                raise JitTypeError(
                    f"{kernel.name}: {param.name} is a record, which specs do not pass"
                )
            params.append(f"{ctype(type_)} {param.name}")
            given.append(param.name)
            continue
        element = ctype(BufferType(type_.dtype))
        params.append(f"{'' if written else 'const '}{element} {param.name}")
        names = [f"{param.name}_{axis}" for axis in range(type_.ndim)]
        extents += [f"long long {name}" for name in names]
        defaults |= {name: f"{param.name}.shape[{k}]" for k, name in enumerate(names)}
        given.append(f"kspec::whole_view<{ctype(type_)}>({', '.join([param.name, *names])})")
    listed = ", ".join([*params, *extents])
    text = replace(built, kernel=body).text(lines=False)
    code = (
        f'{text}\nextern "C" __global__ void {kernel.name}({listed}) {{\n'
        f"  {body.name}({', '.join(given)});\n}}\n"
    )
    return build_spec(
        RawSpec,
        name=kernel.name,
        doc=doc,
        code=code,
        params=listed,
        defaults=defaults,
        cooperative=built.cooperative,
    )
