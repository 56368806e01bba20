"""Elementwise kernels that fused functions call: each output becomes a device function.

>>> from kspec.spec.models import ElementwiseSpec
>>> spec = ElementwiseSpec(name="twice", inputs="T x", outputs="T y", operation="y = x + x")
>>> print(definition(spec, {"T": "float32"}, "twice_0"))
namespace twice_0 {
typedef float T;
__device__ inline void compute(const T x, T& y) {
  do {
    y = x + x;
  } while (false);
}
__device__ inline T compute_y(const T x) {
  T y;
  compute(x, y);
  return y;
}
}
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from kspec.errors import ArgumentTypeError, counted
from kspec.fusion.graph import is_number
from kspec.fusion.refusals import refuse
from kspec.fusion.tracing.proxies import Proxy
from kspec.fusion.tracing.tracer import Tracer
from kspec.model import dtypes
from kspec.model.infer import NUMBER, Abstract, bind_types, param_dtype
from kspec.model.signature import Param
from kspec.spec.models import ElementwiseSpec

_INCLUDE = "#include"


def call_kernel(
    tracer: Tracer, kernel: Any, args: Sequence[Any], keywords: Mapping[str, Any]
) -> Proxy | tuple[Proxy, ...] | None:
    """Return the result of a kernel of kspec's for proxies.

    Raises
    ------
    FusionError
        If it cannot be part of another kernel, or its arguments do not fit.
    """
    name = kernel.name
    spec = getattr(kernel, "spec", None)
    if not isinstance(spec, ElementwiseSpec):
        refuse(
            f"the elementwise kernel {name} is not fused: make it with kspec.ElementwiseKernel, or "
            "call it outside of the function"
        )
    reason = _why_not(spec)
    if reason:
        refuse(f"the kernel {name} is not fused, for {reason}; call it outside of the function")
    if keywords:
        refuse(f"the kernel {name} takes no {', '.join(keywords)} in a fused function")
    if len(args) != len(spec.inputs):
        refuse(
            f"the kernel {name} takes {counted(len(spec.inputs), 'input')} in a fused function, "
            f"not {len(args)}; assign what it returns, as in out[...] = {name}(...)"
        )
    values = [tracer.operand(one, name)[0] for one in args]
    types = [NUMBER if is_number(one) else Abstract(None, one.dtype) for one in values]
    try:
        binding = bind_types(spec.declaration(), types, advice="")
    except ArgumentTypeError as error:
        refuse(str(error))
    bound = dict(binding)
    inputs = [
        tracer.convert(value, param_dtype(param, binding))
        for param, value in zip(spec.inputs, values, strict=True)
    ]
    named = definition(spec, bound, "named")
    scope = f"{name}_{hashlib.sha256(named.encode()).hexdigest()[:8]}"
    text = definition(spec, bound, scope)
    made = tuple(
        tracer.wrap(
            tracer.graph.apply(
                f"{scope}::compute_{param.name}", inputs, param_dtype(param, binding), text
            )
        )
        for param in spec.outputs
    )
    if spec.no_return:
        return None
    return made[0] if len(made) == 1 and not spec.return_tuple else made


def definition(spec: ElementwiseSpec, bound: Mapping[str, str], scope: str) -> str:
    """Return a kernel's outputs as functions of its inputs, in C++.

    Parameters
    ----------
    spec : ElementwiseSpec
        The kernel.
    bound : mapping of str to str
        The dtype of each placeholder.
    scope : str
        Namespace of the functions, which are called ``compute_<output>``.
    """
    lines = "\n".join((*spec.macros, spec.preamble)).strip("\n").splitlines()
    outside = [line for line in lines if line.lstrip().startswith(_INCLUDE)]
    inside = [line for line in lines if line not in outside]
    types = [f"typedef {dtypes.lookup(dtype).ctype} {name};" for name, dtype in bound.items()]
    given = [f"const {_ctype(param)} {param.name}" for param in spec.inputs]
    made = [f"{_ctype(param)}& {param.name}" for param in spec.outputs]
    operation = "".join(f"    {line}\n" for line in f"{spec.operation};".splitlines())
    functions = [
        f"__device__ inline void compute({', '.join([*given, *made])}) {{\n"
        f"  do {{\n{operation}  }} while (false);\n}}"
    ]
    variables = "".join(f"  {_ctype(param)} {param.name};\n" for param in spec.outputs)
    call = f"compute({', '.join(spec.params.names)})"
    functions += [
        f"__device__ inline {_ctype(param)} compute_{param.name}({', '.join(given)}) {{\n"
        f"{variables}  {call};\n  return {param.name};\n}}"
        for param in spec.outputs
    ]
    return "\n".join([*outside, f"namespace {scope} {{", *types, *inside, *functions, "}"])


def _why_not(spec: ElementwiseSpec) -> str:
    """Return why a kernel cannot be part of another one; empty if it can."""
    declaration = spec.declaration()
    raw = next((param.name for param in spec.params if param.raw), "")
    if raw:
        return f"its parameter {raw} is raw"
    if spec.loop_prep or spec.after_loop:
        return "it has a loop_prep or an after_loop"
    if declaration.single:
        return "its operation returns, or reads the thread's index"
    if declaration.updates:
        return f"its output {declaration.updates[0]} begins with its old value"
    if declaration.windows:
        return f"its operation reads neighbours of {declaration.windows[0].param}"
    core = next((param for param in spec.params if param.core), None)
    if core is not None:
        return f"its parameter {core} has core dimensions"
    if declaration.sizes:
        return f"it has sizes ({', '.join(declaration.size_names)})"
    if spec.compiler_options:
        return f"it has compiler options of its own ({', '.join(spec.compiler_options)})"
    return declaration.whole or ("its operation works on memory" if declaration.in_place else "")


def _ctype(param: Param) -> str:
    return param.type if param.is_placeholder else dtypes.lookup(param.type).ctype
