"""Draw programs with kernels, run each, and count those that were right.

``python -m tests.drawn elementwise reduction --count 100 --seed 1 --device host --jobs 2`` draws
100 programs of each family. A family is a module of this package with ``draw(random) -> str``: the
text of a program that asserts what its kernels computed. Programs use ``np``, ``xp`` (NumPy or
CuPy), ``kspec``, ``jit``, and ``get``, which copies an array of ``xp`` to NumPy.
"""

import argparse
import collections
import concurrent.futures
import importlib
import queue
import re
import sys
import tempfile
import zlib

import numpy as np

from tests.drawn.worker import Worker

KINDS = ("right", "refused", "wrong", "crashed", "internal", "program")


def program(family: str, seed: int, index: int) -> str:
    """Return the text of one draw, which its seed and index decide."""
    random = np.random.default_rng([seed, zlib.crc32(family.encode()), index])
    return importlib.import_module(f"tests.drawn.{family}").draw(random)


def main() -> int:
    """Draw, run, and print the counts and the first program of each kind of finding."""
    parser = argparse.ArgumentParser(prog="python -m tests.drawn", description=__doc__)
    parser.add_argument("families", nargs="+")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="number of the first draw")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=("host", "cuda"), default="host")
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args()
    counts, findings = collections.Counter(), collections.defaultdict(list)
    idle = queue.SimpleQueue()
    for _ in range(args.jobs):
        idle.put(Worker())
    with tempfile.TemporaryDirectory() as folder:

        def one(family: str, index: int) -> None:
            text = program(family, args.seed, index)
            worker = idle.get()
            kind, said, trace = worker.run(text, f"{folder}/{family}_{index}.py", args.device)
            idle.put(worker)
            counts[family, kind] += 1
            if kind != "right":  # findings are alike if their messages are, apart from numbers
                line = re.sub(r"[-+.\w]*\d[-+.\w]*", "#", (said.splitlines() or [""])[0])
                found = findings[family, kind, line]
                found.append(index)
                if len(found) == 1:
                    print(f"--- {family} {index}: {kind}\n{text}\n{trace or said}", flush=True)

        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            numbers = range(args.first, args.first + args.count)
            tasks = [pool.submit(one, family, k) for k in numbers for family in args.families]
            for task in concurrent.futures.as_completed(tasks):
                task.result()
    for family in args.families:
        print(f"{family}: " + ", ".join(f"{counts[family, kind]} {kind}" for kind in KINDS))
    for (family, kind, line), found in findings.items():
        print(f"  {family} {kind}, {len(found)} times ({sorted(found)[:8]}): {line}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
