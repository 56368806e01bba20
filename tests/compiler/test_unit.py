"""The parts of the dialect that a source gets: all whose names it writes."""

from __future__ import annotations

import re
import subprocess

import pytest

from kspec.compiler.host import find_compiler
from kspec.compiler.host.compile import compile_host
from kspec.compiler.host.unit import _PARTS, INCLUDE_DIRECTORY, prepare_unit
from kspec.model.stages import CudaSource, Header

# What each macro leaves out.
FILES = {
    "KSPEC_HOST_NO_ATOMICS": ("atomics",),
    "KSPEC_HOST_NO_ROUNDING": ("rounding", "convert"),
    "KSPEC_HOST_NO_SIMD": ("simd",),
    "KSPEC_HOST_NO_TEXTURES": ("texture",),
    "KSPEC_HOST_NO_WARPS": ("warp",),
}
KERNEL = 'extern "C" __global__ void k(int* x) {{ {} }}'
DECLARED = re.compile(
    r"static inline (?:__attribute__\(\(\w+\)\) )?[\w:<> ]*?[ &*]((?:__|atomic|tex[123C]|surf)\w+) ?\("
)


def parts_of(text: str, *headers: Header, options: tuple[str, ...] = ()) -> set[str]:
    """Return the macros that leave out what a text does not name."""
    unit = prepare_unit(CudaSource("k.cu", text, headers=headers), list(options))
    return {line.split()[1] for line in unit.text.splitlines() if "KSPEC_HOST_NO_" in line}


def declared_in(name: str) -> set[str]:
    """Return the functions of CUDA that one header of the dialect has."""
    command = [*find_compiler().command, "-E", "-std=c++17", f"-I{INCLUDE_DIRECTORY}", "-x", "c++"]
    done = subprocess.run(
        [*command, "-"],
        input='#include "kspec_host.h"\n',
        capture_output=True,
        text=True,
        check=True,
    )
    path, lines = "", []
    for line in done.stdout.splitlines():
        marker = re.match(r'# \d+ "([^"]*)"', line)
        if marker:
            path = marker[1]
        elif path.endswith(f"kspec_host/{name}.h"):
            lines.append(line)
    return set(DECLARED.findall("\n".join(lines)))


@pytest.mark.parametrize(
    ("macro", "file"), [(macro, file) for macro, files in FILES.items() for file in files]
)
def test_every_name_of_a_part_brings_it(macro: str, file: str) -> None:
    names = declared_in(file)
    assert len(names) >= 15, names
    assert {name for name in names if macro in parts_of(KERNEL.format(f"{name}();"))} == set()


def test_a_plain_kernel_gets_none() -> None:
    assert parts_of(KERNEL.format("*x = 1;")) == set(_PARTS) == set(FILES)


@pytest.mark.parametrize(
    "text",
    [
        "#define NAME(x) __##x\n",
        "#define NAME(x) __%:%:x\n",
        "#include <vector>\n",
        "int ato\\\nmic;\n",
    ],
)
def test_what_may_name_anything_gets_all(text: str) -> None:
    assert parts_of(text) == set()


def test_names_in_headers_options_and_expressions() -> None:
    part = "KSPEC_HOST_NO_ATOMICS"
    assert part not in parts_of("", Header("a.h", "#define ADD atomicAdd\n"))
    assert part not in parts_of("", options=("#define ADD atomicAdd",))


@pytest.mark.parametrize("header", ["cuda_fp16.h", "cuda_bf16.h", "cooperative_groups.h"])
def test_headers_of_the_dialect_bring_what_they_need(header: str) -> None:
    compile_host(CudaSource("k.cu", f"#include <{header}>\n" + KERNEL.format("*x = 1;")))
