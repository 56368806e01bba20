"""Reduction kernels: axes, layouts, several inputs and outputs, structs, identities, indices."""

import math

import numpy as np

from tests.drawn import arguments
from tests.drawn.arguments import COMPLEX, FLOATS, array, pick
from tests.drawn.reductions import REAL, ROWS, Row

EPSILON = {"bfloat16": 2.0**-7, "float16": 2.0**-9, "float64": 2.0**-50, "complex128": 2.0**-50}

HEAD = """WIDE = {"f": "float64", "V": "float64", "c": "complex128"}
def rows(a, shape, axis):
    axis = range(len(shape)) if axis is None else np.atleast_1d(axis).astype(int)
    axis = sorted(k % len(shape) for k in axis)
    kept = [k for k in range(len(shape)) if k not in axis]
    a = np.broadcast_to(a, shape).transpose(*kept, *axis)
    return a.reshape([*(shape[k] for k in kept), np.prod([shape[k] for k in axis], dtype=int)])"""


def draw(random: np.random.Generator) -> str:
    """Return a program with one kernel and some calls."""
    row = pick(random, ROWS)
    names = [p.split()[-1] for p in row.inputs.split(", ")]
    outputs = [p.split()[-1] for p in row.outputs.split(", ")]
    optional = f", reduce_type={row.reduce_type!r}" * (row.reduce_type is not None)
    optional += ", reduce_dims=False" * ("J0" in row.want)
    quoted = f'"""{row.preamble}"""' if "\n" in row.preamble else repr(row.preamble)
    optional += f",\n    preamble={quoted}" * bool(row.preamble)
    text = [
        f"rng = np.random.default_rng({random.integers(10**6)})",
        f"f = kspec.ReductionKernel(\n    {row.inputs!r}, {row.outputs!r}, {row.map!r}, {row.reduce!r},",
        f"    {row.post!r}, {row.identity!r}, 'f'{optional})",
        HEAD,
        f"def want({', '.join(names)}, shape, axis):",
    ]
    for n in names:
        if n in "xy":
            text.append(f"    {n} = get({n})")
            text.append(
                f"    {n} = rows({n}.astype(WIDE.get({n}.dtype.kind, 'int64')), shape, axis)"
            )
        elif n == "w":
            text.append("    w = get(w).astype('float64')")
    text.append("    n, J = x.shape[-1], np.arange(x.shape[-1])")
    if "J0" in row.want:
        text.append(
            "    lengths = [n for k, n in enumerate(shape) if axis is None or k in np.atleast_1d(axis) % len(shape)]"
        )
        text.append("    J0 = np.unravel_index(J, lengths)[0]")
    if "I " in row.want:
        text.append("    I = np.arange(np.prod(x.shape[:-1], dtype=int)).reshape(*x.shape[:-1], 1)")
    text.append(f"    return [{row.want}]")
    for _ in range(int(random.integers(2, 5))):
        text += call(random, row, names, outputs)
    head = ["import ml_dtypes  # bfloat16"] if "bfloat16" in "".join(text) else []
    return "\n".join([*head, *text]) + "\n"


def call(random, row: Row, names: list[str], outputs: list[str]) -> list[str]:
    """Return the lines of a call and of its check."""
    dtypes = {"T": pick(random, row.dtypes), "S": pick(random, REAL)}
    size = int(pick(random, [30, 5000, 5000, 5000, 100_000]))
    shape = arguments.shape(random, None, min(size, 5000) if dtypes["T"][-2:] == "16" else size)
    if "_in_ind.get" in row.map and not shape:
        shape = (3,)
    axes = [int(k) for k in random.permutation(len(shape)) if random.random() < 0.5]
    axis = pick(random, [None, tuple(axes), *(axes[:1] and [axes[0], axes[0] - len(shape)])])
    if "_in_ind.get" in row.map and axis == ():
        axis = None
    reduced = (
        range(len(shape))
        if axis is None
        else [k % len(shape) for k in np.atleast_1d(axis).astype(int)]
    )
    count = math.prod(shape[k] for k in reduced)
    if not count and row.identity is None:
        shape = tuple(max(k, 1) for k in shape)
        count = math.prod(shape[k] for k in reduced)
    keep = bool(random.random() < 0.25)
    kept = tuple(1 if k in reduced else n for k, n in enumerate(shape) if keep or k not in reduced)
    text = [f"shape, axis = {shape}, {axis}"]
    for param in row.inputs.split(", "):
        *_, kind, n = param.split()
        if n == "eps":
            text.append("eps = 0.5")
        elif n == "w":
            text.append(f"w = {array(random, dtypes['T'], pick(random, [(1,), (5,), (2, 3)]))}")
        elif n == "y" and kind == "T" and random.random() < 0.15:
            text.append("y = 2")
        else:
            own = shape if n == "x" else arguments.thinned(random, shape)
            text.append(f"{n} = {array(random, dtypes[kind], own)}")
    given = ", ".join(names)
    text.append(f"wanted = want({given}, shape, axis)")
    kinds = {p.split()[1]: dtypes.get(p.split()[0], p.split()[0]) for p in row.outputs.split(", ")}
    made = [arguments.output(random, kinds[n], kept) for n in outputs]
    out = pick(random, ["", "", "out", "positional"])
    tail = ", keepdims=True" if keep else ""
    if out == "out":
        tail += f", out={made[0] if len(made) == 1 else '(' + ', '.join(made) + ')'}"
    elif out == "positional":
        given = ", ".join([given, *made])
    text.append(f"{', '.join(outputs)} = f({given}, axis=axis{tail})")
    for k, n in enumerate(outputs):
        text.append(f"assert {n}.shape == {kept} and {n}.dtype == {kinds[n]!r}")
        target = f"wanted[{k}].reshape({kept})"
        if kinds[n] in FLOATS + COMPLEX:
            fine = "float64" in (kinds[n], row.reduce_type) or kinds[n] == "complex128"
            low = dtypes["T"] in ("float16", "bfloat16", "float32", "complex64")
            atol = (2.0**-50 if fine and not low else 2.0**-22) * (10 + count) * row.scale
            rtol = max(EPSILON.get(kinds[n], 2.0**-21), 2.0**-21 if low else 0)
            rtol += (2.0**-23 if low or not fine else 2.0**-52) * count / 4  # of equal terms
            wide = "complex128" if kinds[n] in COMPLEX else "float64"
            text.append(
                f"np.testing.assert_allclose(get({n}).astype({wide!r}), {target}, {rtol:.1e}, {atol:.2g})"
            )
        else:
            text.append(f"np.testing.assert_array_equal(get({n}), {target}.astype({kinds[n]!r}))")
    return text
