"""Architectures that share the optimizer's work: targets of one source in, each with its `via` out.

>>> found = share(CudaSource("a.cu", ""), [Target("sm_90"), Target("sm_100"), Target("sm_120")])
>>> [str(one) for one in found]
['sm_90', 'sm_100', 'sm_120 via compute_100']

NVRTC's optimizer, which makes PTX, takes 62 % of a compilation, the assembler 36 % (measured,
NVRTC 13.0).  A build for several architectures of a family optimizes once and assembles for each.
The first member is compiled directly: one run of NVRTC makes its cubin and the PTX for the others.
So is a source of which a kernel would spill registers (`kspec.compiler.compilation`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kspec.compiler.options import are_plain
from kspec.compiler.target import capability
from kspec.model.stages import CudaSource, Target

# First compute capability of each family.  Where a header of kspec reads more of __CUDA_ARCH__
# (by_key_groups.cuh, which needs more shared memory than sm_120 has), the first is right for all.
FAMILIES = (80, 90, 100)


def share(source: CudaSource, targets: Sequence[Target]) -> tuple[Target, ...]:
    """Return the targets of a build, of which those of a family share its PTX.

    A source that may differ between members shares nothing: one that reads the architecture, or
    whose options say more than macros, headers and the standard.
    """
    if not _is_uniform(source):
        return tuple(targets)
    families = [_family(one) for one in targets]
    return tuple(
        replace(one, via=f"compute_{family}")
        if families.count(family) > 1 and 0 != family != capability(one)
        else one
        for one, family in zip(targets, families, strict=True)
    )


def _family(target: Target) -> int:
    """Return the first capability of a target's family; 0 if it has code of its own."""
    if target.format != "cubin" or not target.arch[-1].isdigit():
        return 0
    return max((one for one in FAMILIES if one <= capability(target)), default=0)


def _is_uniform(source: CudaSource) -> bool:
    """Return whether a source, with the headers it carries, is the same for a whole family."""
    texts = (source.text, *(header.text for header in source.headers), *source.options)
    return (
        source.backend == "nvrtc"
        and are_plain(source.options)
        and not any("__CUDA_ARCH" in text for text in texts)
    )
