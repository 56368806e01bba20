"""A kernel's source in, what compilers make of it out: PTX, machine code, registers."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from kspec.dataclass import dataclass
from kspec.model.stages import CudaSource, Figures, Target
from kspec.runtime.driver.device import default_device
from kspec.runtime.modules.provider import compile_for, target_of

_WITHOUT_GPU = "sm_90"
_DISASSEMBLERS = ("nvdisasm", "-c"), ("cuobjdump", "-sass")


@dataclass(frozen=True)
class Inspection:
    """Every stage of a kernel, for certain types of arguments.

    Attributes
    ----------
    source : str
        The Python function.
    ir : str
        The typed program that was made of it.
    code : str
        CUDA C++.
    arch : str
        Architecture of the following.
    ptx : str
        Of the virtual architecture.
    sass : str
        Of the real one; empty where neither nvdisasm nor cuobjdump is installed.
    registers, spill_bytes, shared_bytes, local_bytes : int
        Needs of a thread, or of a block; -1 where unknown.
    """

    source: str
    ir: str
    code: str
    arch: str
    ptx: str
    sass: str
    registers: int
    spill_bytes: int
    shared_bytes: int
    local_bytes: int

    def __str__(self) -> str:
        needs = (
            f"{self.arch}: {self.registers} registers, {self.spill_bytes} bytes spilled, "
            f"{self.shared_bytes} bytes shared"
        )
        return "\n\n".join([self.source.rstrip(), self.ir, self.code.rstrip(), needs])


def inspect_source(source: str, ir: str, code: str, arch: str | None = None) -> Inspection:
    """Compile a kernel for an architecture, by default the one of the current GPU.

    Raises
    ------
    CompileError
        If NVRTC refuses it.
    ToolNotFoundError
        If there is no NVRTC.
    """
    arch = arch or _default_arch()
    cuda = CudaSource("kernel.cu", code)
    image = compile_for(cuda, Target(arch))
    ptx = compile_for(cuda, Target(f"compute_{arch.removeprefix('sm_')}"))
    figures = next(iter(image.figures.values()), Figures())
    return Inspection(
        source,
        ir,
        code,
        arch,
        ptx.code.rstrip(b"\0").decode(),
        disassembly(image.code),
        figures.registers,
        figures.spill_bytes,
        figures.shared_bytes,
        figures.local_bytes,
    )


def lto_ir(code: str, arch: str | None = None) -> bytes:
    """Return CUDA C++ as LTO-IR for an architecture, by default that of the current GPU.

    Raises
    ------
    CompileError
        If NVRTC refuses it.
    ToolNotFoundError
        If there is no NVRTC.
    """
    number = (arch or _default_arch()).removeprefix("sm_")
    return compile_for(CudaSource("kernel.cu", code), Target(f"lto_{number}")).code


def _default_arch() -> str:
    device = default_device()
    return _WITHOUT_GPU if device.is_host else target_of(device).arch


def disassembly(code: bytes) -> str:
    """Return a cubin as text; empty where no tool for that is installed."""
    for tool, option in _DISASSEMBLERS:
        command = shutil.which(tool)
        if command is None:
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "kernel.cubin"
            path.write_bytes(code)
            found = subprocess.run(
                [command, option, str(path)], capture_output=True, text=True, check=False
            )
        if found.returncode == 0:
            return found.stdout
    return ""
