"""Compiler logs in, the same logs with advice out.

::

    explain("k.cu(1): error: kernel launch from ... requires separate compilation mode", source)
    # that, and: a kernel that launches kernels ... options=('-dc',)

`kspec.compiler.cuda.nvrtc` and `kspec.compiler.cuda.nvcc` raise `CompileError` with the result.
"""

from __future__ import annotations

import re

from kspec.cpp.kernel_heads import kernel_names
from kspec.model.stages import CudaSource

# NVRTC appends one pragma per name expression to the text, in an order of its own.
_BAD_NAME = re.compile(
    r"^__nv_name_map\(\d+\): error: .*\n  #pragma nv_mangled_name (.*)$", re.MULTILINE
)
_NO_HEADER = re.compile(
    r'(?:could not|cannot) open source file "([^"]+)"|error: (\S+): No such file or directory'
)
# NVRTC knows the device runtime's functions with -rdc=true only.
_NO_RUNTIME = re.compile(
    r"requires separate compilation mode|the required runtime APIs are not declared"
    r'|identifier "cuda[A-Z]\w+" is undefined'
)
_LAUNCHES = (
    "a kernel that launches kernels, or calls CUDA's runtime, is linked with CUDA's device "
    "runtime: options=('-dc',)"
)
# First part of a header's name to what brings it; all others come with the toolkit.
_LIBRARIES = {"curand": "nvidia-curand (or, for CUDA 12, nvidia-curand-cu12)"}
_STANDARD_HEADER = re.compile(r"[a-z_]+")  # C++ alone names its headers without an ending


def explain(log: str, source: CudaSource) -> str:
    """Return a log of errors, with advice and the name expressions they are about."""
    absent = _NO_HEADER.search(log)
    if absent is not None:
        return f"{log}\n{_explain_header(absent[1] or absent[2], source)}"
    if _NO_RUNTIME.search(log):
        return f"{log}\n{_LAUNCHES}"
    names = dict.fromkeys(repr(name.strip()) for name in _BAD_NAME.findall(log))
    if not names:
        return log
    have = ", ".join(kernel_names(source.text)) or "none"
    what = f"no kernel fits the name expression {', '.join(names)} (the code has: {have})"
    return f"{source.name}: {what}\n{log}"


def _explain_header(name: str, source: CudaSource) -> str:
    owners = (owner for prefix, owner in _LIBRARIES.items() if name.startswith(prefix))
    library = next(owners, "")
    if library:
        return f'"{name}" comes with a library of its own: pip install {library}'
    advice = (
        f'"{name}" is not in the carried headers, in the directories of -I or in the CUDA toolkit; '
        "a missing toolkit is installed by: pip install 'kspec[cu13]'"
    )
    if source.backend == "nvrtc" and _STANDARD_HEADER.fullmatch(name):
        advice += (
            "; NVRTC has only the standard C++ headers that docs/raw-kernels.md lists, "
            "backend='nvcc' has all"
        )
    return advice
