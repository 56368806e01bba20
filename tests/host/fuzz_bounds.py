"""Random kernels with wrong indices on NumPy arrays: each ends in a located fault or is right.

::

    python -m tests.host.fuzz_bounds --kernels 5000 --seed 1

A case is a raw or an elementwise kernel whose statements index arrays of the call, local and shared
arrays, dynamic shared memory and a module's variable, some of them out of bounds. The indices are
known when the text is made, so that Python knows whether any is wrong. Cases of a module are
compiled together. The process that runs them would show a crash: `main` runs one for each module.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

import kspec

_FAR = (1, 2, 5, 17, 100, 1000, 4096, 65_536, 10**6, 10**8, 10**9, 3 * 10**11, 2**45, 2**59)
_TYPES = {"float": np.float32, "double": np.float64, "int": np.int32, "char": np.int8}
_OPERATIONS = (
    ("z = y[i + shift]", lambda x: x),
    ("z = y[_ind.size() - 1 - i - shift]", lambda x: x[::-1]),
    ("z = (&y[0])[i + shift] + y[i]", lambda x: x + x),
    ("if (i % 2 == 0) z = y[i + 2 * shift]; else z = y[i]", lambda x: x),
)
_VARIABLE = 6  # elements of the module's variable
_SHARED = 48  # bytes of dynamic shared memory


@dataclass
class Case:
    """A kernel and what must come of it.

    Attributes
    ----------
    name : str
        Of the kernel.
    text : str
        Its source.
    arrays : list of ndarray
        Its arguments.
    wrong : bool
        Whether an index leaves the memory that it starts from.
    expected : list of ndarray
        What the arrays hold afterwards if none does.
    elementwise : bool
        Whether `text` is the operation of an elementwise kernel.
    threads : int
        Of the block.
    """

    name: str
    text: str
    arrays: list[np.ndarray]
    wrong: bool
    expected: list[np.ndarray]
    elementwise: bool = False
    threads: int = 1
    types: list[str] = field(default_factory=list)


def _index(rng: random.Random, size: int, wrong: bool) -> int:
    if not wrong:
        return rng.randrange(size)
    distance = rng.choice(_FAR) * rng.randint(1, 3)
    return -distance if rng.random() < 0.45 else size - 1 + distance


def _array(rng: random.Random, kind: str) -> np.ndarray:
    """Return an array: of its own, a view in the middle of another, or a slice of bytes."""
    size = rng.choice((1, 2, 3, 5, 8, 17, 100, 1000, 40_000))
    values = (np.arange(size) % 50).astype(_TYPES[kind])
    form = rng.randrange(4)
    if form == 0:
        return values.copy()
    if form == 1:  # unaligned by one element, which x86-64 allows
        raw = bytearray(values.nbytes + 64)
        start = values.itemsize * rng.randint(0, 3)
        view = np.frombuffer(raw, values.dtype, count=size, offset=start)
        view[...] = values
        return view
    return values


def _statement(rng: random.Random, case: Case, wrong: bool) -> str:
    """Return a statement with one index, and do to `case.expected` what it does."""
    where = rng.choice(("read", "write", "add", "local", "shared", "dynamic", "variable", "atomic"))
    kinds = case.types
    number = rng.randrange(len(case.arrays))
    target = case.expected[number]
    value = rng.randint(1, 9)
    base = f"a{number}"
    if where in ("read", "write", "add", "atomic"):
        index = _index(rng, target.size, wrong)
        text = {
            "read": f"keep += {base}[{index}LL];",
            "write": f"{base}[{index}LL] = {value};",
            "add": f"{base}[{index}LL] += {value};",
            "atomic": f"{base}[{index}LL] = {value};",
        }[where]
        if where == "atomic" and kinds[number] in ("int", "float"):
            text = f"atomicAdd({base} + ({index}LL), ({kinds[number]}){value});"
            if not wrong:
                target[index] += value
        elif where in ("write", "atomic") and not wrong:
            target[index] = value
        elif where == "add" and not wrong:
            target[index] += value
        return text
    size = {"local": 9, "shared": 12, "dynamic": _SHARED // 4, "variable": _VARIABLE}[where]
    index = _index(rng, size, wrong)
    name = {"local": "l", "shared": "s", "dynamic": "d", "variable": "v"}[where]
    write = f"{name}[{index}LL + zero] = {value};"
    cell = rng.randrange(target.size)
    if not wrong:
        target[cell] = value
        return f"{write} {base}[{cell}] = {name}[{index}LL + zero];"
    return rng.choice((write, f"keep += {name}[{index}LL + zero];"))


def make_case(rng: random.Random, number: int) -> Case:
    """Return a random case; two in three have a wrong index."""
    wrong = rng.random() < 0.67
    if rng.random() < 0.2:
        return _elementwise(rng, number, wrong)
    kinds = [rng.choice(list(_TYPES)) for _ in range(rng.randint(1, 3))]
    arrays = [_array(rng, kind) for kind in kinds]
    case = Case(f"k{number}", "", arrays, wrong, [one.copy() for one in arrays], types=kinds)
    count = rng.randint(1, 4)
    bad = rng.randrange(count) if wrong else -1
    body = [_statement(rng, case, k == bad) for k in range(count)]
    params = ", ".join(f"{kind}* a{k}" for k, kind in enumerate(kinds))
    used = " ".join(body)
    lines = [f'extern "C" __global__ void k{number}({params}, double* out, long long zero) {{']
    if "d[" in used:
        lines.append("  extern __shared__ int d[];")
    lines += ["  __shared__ int s[12]; int l[9]; double keep = 0;"]
    lines += ["  for (int i = 0; i < 9; i++) l[i] = i;"]
    lines += [f"  {one}" for one in body]
    lines += ["  out[0] = keep + l[zero];", "}"]
    case.text = "\n".join(lines)
    return case


def _elementwise(rng: random.Random, number: int, wrong: bool) -> Case:
    # Few texts, since each is compiled by itself; the index comes with the call.
    size = rng.choice((1, 3, 10, 100, 5000))
    kind = rng.choice(list(_TYPES))
    x = (np.arange(size) % 50).astype(_TYPES[kind])
    shift = np.int64(rng.choice(_FAR) * rng.choice((-1, 1)) if wrong else 0)
    text, of = rng.choice(_OPERATIONS)
    return Case(f"k{number}", text, [x, shift], wrong, [of(x)], elementwise=True)


def _call(case: Case, module: kspec.RawModule) -> np.ndarray | None:
    if case.elementwise:
        kernel = kspec.ElementwiseKernel("raw T y, int64 shift", "T z", case.text, "shifted")
        result: np.ndarray = kernel(*case.arrays, size=case.arrays[0].size)
        return result
    out = np.zeros(1)
    arguments = (*case.arrays, out, np.int64(0))
    module.get_function(case.name)((1,), (case.threads,), arguments, shared_mem=_SHARED)
    return None


def check(case: Case, module: kspec.RawModule) -> str:
    """Run a case; return "right", "fault", or "elsewhere" if it hit other memory of the call."""
    try:
        result = _call(case, module)
    except kspec.HostFault as fault:
        assert case.wrong, f"{case.text}\n{fault}"
        assert fault.kind in ("illegal-address", "stack-overflow"), fault
        assert "thread (" in str(fault), fault
        assert fault.line, fault
        return "fault"
    if case.wrong:
        # The call's other memory is legal: arrays, and the free part of a thread's stack.
        assert not case.elementwise, case.text
        return "elsewhere"
    got = [result] if result is not None else case.arrays
    for one, expected in zip(got, case.expected, strict=True):
        np.testing.assert_array_equal(one, expected, err_msg=case.text)
    return "right"


def run(seed: int, kernels: int) -> Iterator[str]:
    """Run the cases of one module."""
    rng = random.Random(seed)
    cases = [make_case(rng, number) for number in range(kernels)]
    text = f"__device__ int v[{_VARIABLE}];\n" + "\n".join(
        case.text for case in cases if not case.elementwise
    )
    module = kspec.RawModule(code=text)
    for case in cases:
        yield check(case, module)


def main() -> int:
    """Run many modules, each in a process of its own; return how many crashed or were wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernels", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--module", type=int, default=100, help="kernels of a module")
    parser.add_argument("--here", action="store_true", help="run one module in this process")
    options = parser.parse_args()
    if options.here:
        print(" ".join(run(options.seed, options.kernels)))
        return 0
    counts: dict[str, int] = {}
    bad = 0
    for start in range(0, options.kernels, options.module):
        command = [sys.executable, "-m", "tests.host.fuzz_bounds", "--here"]
        command += ["--seed", str(options.seed * 1_000_003 + start)]
        command += ["--kernels", str(options.module)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            bad += 1
            print(f"seed {command[5]}: exit {done.returncode}\n{done.stderr[-3000:]}", flush=True)
        print(f"{start + options.module} kernels", file=sys.stderr, flush=True)
        for word in done.stdout.split():
            counts[word] = counts.get(word, 0) + 1
    print(", ".join(f"{count} {word}" for word, count in sorted(counts.items())), f"{bad} bad")
    return bad


if __name__ == "__main__":
    sys.exit(main())
