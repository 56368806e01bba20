"""Random kernels with loops over the threads of a block and without: their results are equal.

::

    python -m tests.host.looped_kernels --kernels 1000 --seed 1

Their text is of the part of C++ that `kspec.compiler.host.loops` reads: guards, loops, shared
memory between barriers, indices of all sorts.  Both ways must leave the same arrays, and where an
index is out of bounds, the same fault.  `main` prints each difference.
"""

from __future__ import annotations

import argparse
import ctypes
import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from kspec.compiler.host import HostCompiler
from kspec.compiler.host import compile as host_compile
from kspec.errors import HostFault
from kspec.host.kernels import NativeKernel, Region
from kspec.host.modules import load_module
from kspec.model.stages import CudaSource

_TYPES = {"float": np.float32, "double": np.float64, "int": np.int32, "unsigned char": np.uint8}


@dataclass
class Case:
    """A kernel and a launch of it."""

    text: str
    types: tuple[str, ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    elements: int
    seed: int


class _Text:
    """Writes a kernel with the names that are in scope."""

    def __init__(self, generator: random.Random) -> None:
        self.pick = generator
        self.indices = ["i", "tx"]
        self.values = ["s"]
        self.integers: list[str] = []  # values too
        self.shared = False
        self.types: tuple[str, ...] = ()
        self.count = 0

    def index(self) -> str:
        pick = self.pick
        name = pick.choice(self.indices)
        forms = [name] * 6 + [f"{name} + {pick.randint(0, 3)}", f"{name} - 1", f"n - 1 - {name}"]
        forms += [f"{name} * 2 / 2", f"{name} % n", f"(size_t){name}", f"(int)({name} & 63)"]
        forms += [f"{name} >> 1", f"blockIdx.x * blockDim.x + {pick.choice(['tx', '0'])}"]
        return pick.choice(forms)

    def condition(self) -> str:
        pick = self.pick
        name = pick.choice(self.indices)
        return pick.choice(
            [f"{name} < n", f"{name} + 1 < n", f"{name} > 0 && {name} < n - 1", f"n > {name}",
             f"tx == {pick.randint(0, 4)}", f"tx < {pick.randint(1, 40)}", f"!({name} >= n)",
             f"{name} != 3 && {name} <= n - 1", f"a[{name}] > s", f"{self.value(1)} < 1"]
        )  # fmt: skip

    def array(self) -> str:
        return self.pick.choice("abc")

    def value(self, depth: int = 0) -> str:
        pick = self.pick
        if depth > 2 or pick.random() < 0.3:
            forms = [f"{self.array()}[{self.index()}]"] * 4 + [
                pick.choice(self.values),
                "2",
                "0.5f",
            ]
            forms += [pick.choice(self.indices)]
            if self.shared:
                forms += ["t[ty][tx]", "t[tx % 4][ty]", "t[ty][7 - tx % 8]"]
            return pick.choice(forms)
        one, two = self.value(depth + 1), self.value(depth + 1)
        return pick.choice(
            [f"({one} {pick.choice('+-*')} {two})", f"({one} {pick.choice('+-*')} {two})",
             f"({one} / {two})", f"({self.condition() if depth < 2 else 's > 0'} ? {one} : {two})",
             f"sqrtf((float)({one}))", f"fmaxf((float)({one}), s)", f"(float)({one})",
             f"-({one})"]
        )  # fmt: skip

    def statements(self, depth: int, count: int) -> str:
        scope = len(self.indices), len(self.values)
        text = "".join(self.statement(depth) for _ in range(count))
        del self.indices[scope[0] :], self.values[scope[1] :]
        return text

    def statement(self, depth: int) -> str:
        pick = self.pick
        self.count += 1
        number = self.count
        kind = pick.randrange(10)
        if kind == 0:
            text = (
                f"{pick.choice(['int', 'unsigned', 'const long long'])} k{number} = {self.index()};"
            )
            self.indices.append(f"k{number}")
            return text
        if kind == 1:
            type_ = pick.choice(["float", "double", "const float", "int"])
            name = f"{'c' if 'const' in type_ else 'v'}{number}"
            text = f"{type_} {name} = {self.value()};"
            self.values.append(name)
            return text
        changed = [one for one in self.values if one[0] == "v"]
        if kind == 2 and changed:
            return f"{pick.choice(changed)} {pick.choice(['=', '+=', '*='])} {self.value()};"
        if kind == 3 and depth < 2:
            inside = self.statements(depth + 1, pick.randint(1, 2))
            other = ""
            if pick.random() < 0.3:
                other = f" else {{ {self.statements(depth + 1, 1)} }}"
            return f"if ({self.condition()}) {{ {inside} }}{other}\n"
        if kind == 4 and depth < 2:
            return self.loop(depth)
        if kind == 5 and self.shared:
            return f"t[{pick.choice(['ty', 'tx % 4'])}][{pick.choice(['tx', 'tx / 2'])}] = {self.value()};\n"
        if kind == 6 and self.shared and depth < 2:
            return "__syncthreads();\n"
        operator = pick.choice(["=", "=", "=", "+=", "-=", "*="])
        return f"{self.array()}[{self.index()}] {operator} {self.value()};\n"

    def loop(self, depth: int) -> str:
        pick = self.pick
        name = f"j{self.count}"
        head = pick.choice(
            [f"int {name} = 0; {name} < {pick.randint(1, 5)}; {name}++",
             f"int {name} = 0; {name} <= m; ++{name}",
             f"unsigned {name} = tx; {name} < n; {name} += blockDim.x * 2",
             f"int {name} = i; {name} < n; {name} += gridDim.x * blockDim.x",
             f"int {name} = 8; {name} > 0; {name} >>= 1",
             f"int {name} = 1; {name} < n; {name} *= 2",
             f"int {name} = m * 2; {name}; {name} >>= 1",
             f"int {name} = 0; {name} < n; {name} += 4",
             f"int {name} = n - 1; {name} >= 0; {name} -= 7"]
        )  # fmt: skip
        self.indices.append(name)
        inside = self.statements(depth + 1, pick.randint(1, 2))
        self.indices.remove(name)
        return f"for ({head}) {{ {inside} }}\n"

    def kernel(self, name: str) -> str:
        pick = self.pick
        self.types = tuple(pick.choice(["float"] * 4 + [*_TYPES]) for _ in "abc")
        parameters = ", ".join(
            f"{kind}* {one}" for kind, one in zip(self.types, "abc", strict=True)
        )
        self.shared = pick.random() < 0.5
        text = f'extern "C" __global__ void {name}({parameters}, int n, int m, float s) {{\n'
        if self.shared:
            text += f"__shared__ {pick.choice(['float', 'int'])} t[4][8];\n"
        text += pick.choice(
            ["int i = blockIdx.x * blockDim.x + threadIdx.x;\n",
             "unsigned int i = threadIdx.x + blockDim.x * blockIdx.x;\n",
             "const size_t i = (size_t)blockDim.x * blockIdx.x + threadIdx.x;\n",
             "int i = (blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;\n"]
        )  # fmt: skip
        text += "int tx = threadIdx.x; int ty = threadIdx.y;\n"
        guard = pick.randrange(4)
        if guard == 0:
            text += "if (i >= n) return;\n"
        body = self.statements(0, pick.randint(1, 6))
        if guard == 1:
            body = f"if (i < n) {{ {body} }}\n"
        return f"{text}{body}}}\n"


def cases(seed: int, kernels: int) -> Iterator[Case]:
    """Yield random kernels."""
    generator = random.Random(seed)
    for _ in range(kernels):
        writer = _Text(generator)
        text = writer.kernel("k")
        block = generator.choice(
            [(8, 4, 1), (8, 1, 1), (16, 1, 1), (4, 2, 2), (32, 1, 1), (3, 3, 1)]
        )
        if writer.shared:
            block = generator.choice([(8, 4, 1), (8, 2, 1), (4, 4, 1)])
        grid = (
            generator.randint(1, 9),
            generator.choice([1, 1, 1, 3]),
            generator.choice([1, 1, 2]),
        )
        threads = block[0] * grid[0]
        elements = max(1, threads + generator.choice([0, 0, 3, 64, -1, -5]))
        yield Case(text, writer.types, grid, block, elements, generator.randrange(1 << 30))


def kernel_of(text: str, loops: bool, compiler: HostCompiler | None = None) -> NativeKernel:
    """Compile a kernel with or without loops; with them, they have to compile too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host_compile, "_may_loop", lambda *_: loops)
        built: list[bool] = []
        compile_ = host_compile._Run._compile

        def counted(run: host_compile._Run) -> tuple[str, bool]:
            log, failed = compile_(run)
            built.append(not failed)
            assert not failed, f"{log}\n{text}"
            return log, failed

        patch.setattr(host_compile._Run, "_compile", counted)
        image = host_compile.compile_host(CudaSource("k.cu", text), compiler, sanitize=("bounds",))
    return load_module(image).get_kernel("k")


@dataclass
class Memory:
    """Arrays amid others, at one address in both runs: messages name what is nearest."""

    before: list[np.ndarray]
    arrays: list[np.ndarray]

    @classmethod
    def of(cls, case: Case) -> Memory:
        """Return memory for a case."""
        generator = np.random.default_rng(case.seed)
        before = [
            (generator.random(case.elements + 2 * 1024) * 9 - 2).astype(_TYPES[kind])
            for kind in case.types
        ]
        return cls(before, [one.copy() for one in before])

    def run(self, kernel: NativeKernel, case: Case) -> tuple[list[np.ndarray], str]:
        """Return the memory after a launch, and its fault."""
        for array, before in zip(self.arrays, self.before, strict=True):
            array[...] = before
        parts = [one[1024 : 1024 + case.elements] for one in self.arrays]
        values: list[ctypes._SimpleCData] = [ctypes.c_void_p(one.ctypes.data) for one in parts]
        values += [ctypes.c_int(case.elements), ctypes.c_int(3), ctypes.c_float(1.5)]
        table = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        regions = [
            Region(one.ctypes.data, one.nbytes, name)
            for name, one in zip("abc", parts, strict=True)
        ]
        fault = ""
        try:
            kernel.launch(case.grid, case.block, ctypes.addressof(table), regions=regions)
        except HostFault as error:
            fault = str(error)
        return [one.copy() for one in self.arrays], fault


def difference(case: Case, compiler: HostCompiler | None = None) -> tuple[str, int, bool]:
    """Return the differences, the number of blocks run as loops, and whether there was a fault."""
    memory = Memory.of(case)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KSPEC_HOST_THREADS", "1")  # a race between blocks has one outcome
        kernel = kernel_of(case.text, True, compiler)
        arrays, fault = memory.run(kernel, case)
        looped = kernel._module._runtime.looped()
        wanted, wanted_fault = memory.run(kernel_of(case.text, False, compiler), case)
    if fault != wanted_fault:
        return f"{fault!r} instead of {wanted_fault!r}\n{case}\n{case.text}", looped, True
    for name, one, other in zip("abc", arrays, wanted, strict=True):
        if not _same(one, other):
            return f"{name} differs\n{case}\n{case.text}", looped, bool(fault)
    return "", looped, bool(fault)


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    if one.dtype.kind != "f":
        return np.array_equal(one, other)
    # The product of two NaNs is either, depending on the order that the compiler chose.
    nan = np.isnan(one) & np.isnan(other)
    return bool(np.all(nan | ((one == other) & (np.signbit(one) == np.signbit(other)))))


def main() -> int:
    """Compare many kernels."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    wrong = looped = faults = 0
    for case in cases(options.seed, options.kernels):
        text, blocks, fault = difference(case)
        wrong += bool(text)
        looped += bool(blocks)
        faults += fault
        if text:
            print(text)
    print(f"{options.kernels} kernels, {looped} ran as loops, {faults} faults, {wrong} differ")
    return wrong > 0


if __name__ == "__main__":
    raise SystemExit(main())
