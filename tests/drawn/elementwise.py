"""Elementwise kernels: types, expressions, statements, raw arrays, indices, layouts, outputs."""

import numpy as np

from tests.drawn import arguments
from tests.drawn.arguments import COMPLEX, FLOATS, INTEGERS, array, pick
from tests.drawn.expressions import Expression
from tests.drawn.idioms import idiom
from tests.drawn.statements import Body, casts, statements

CLASSES = [INTEGERS[::2], INTEGERS[1::2], INTEGERS[5::2], FLOATS, FLOATS, FLOATS[2:], COMPLEX]
RAW = [  # elements of raw arrays, in C++ and NumPy
    ("w[i % w.size()]", "w.ravel()[i % w.size]"),
    ("w[0]", "w.ravel()[0]"),
    ("w[(n - 1 - i) % w.size()]", "w.ravel()[(i.size - 1 - i) % w.size]"),
    ("w[{0, i % w.shape()[1]}]", "w[0, i % w.shape[1]]"),
]
EPSILON = {"bfloat16": 2.0**-7, "float16": 2.0**-9, "float32": 2.0**-22, "complex64": 2.0**-22}
WIDE = {"complex": "'complex128'", "float": "'float64'", "int": "'int32' if T[-1] in '86' else T"}


def promoted(dtype: str) -> str:
    """Return the type of a dtype's values in expressions."""
    if dtype in ("bool", "int8", "uint8", "int16", "uint16"):
        return "int32"
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def drawn_leaves(random, names: list[str], types: dict, first: str, flags: set) -> list[Expression]:
    """Return the leaves of expressions; placeholders have the types of `first`."""
    kinds = {name: first if kind == "T" else kind for name, kind in types.items()}
    size = {n: 6.0 if kind in FLOATS + COMPLEX else 10.0 for n, kind in kinds.items()}
    leaves = [Expression(n, n, promoted(kinds[n]), size[n]) for n in names]
    if "raw" in flags:
        c, py = pick(random, RAW)
        flags |= {"two axes"} if "{" in c else set()
        leaves.append(Expression(c, py, promoted(kinds["w"]), size["w"]))
    if "uniform" not in flags:
        more = [pick(random, casts(leaf)) for leaf in leaves if random.random() < 0.3]
        leaves += more
    if "i" in flags or "_ind" in flags:
        c, py = ("_ind.get()[1]", "np.indices(shape)[1]") if "_ind" in flags else ("i", "i")
        text = f"({c} % 9)", f"({py} % 9)"
        if "uniform" in flags:
            text = f"T({c} % 7)", f"({py} % 7).astype(P)"
        leaves.append(Expression(*text, promoted(first) if "uniform" in flags else "int64", 9))
    return leaves


def draw(random: np.random.Generator) -> str:
    """Return a program with one kernel and some calls."""
    if random.random() < 0.3:
        text = [f"rng = np.random.default_rng({random.integers(10**6)})", *idiom(random)]
        head = ["import ml_dtypes  # bfloat16"] if "bfloat16" in "".join(text) else []
        return "\n".join([*head, *text]) + "\n"
    names = list("xyv"[: int(random.integers(1, 4))])
    chances = {"uniform": 0.6, "raw": 0.35, "i": 0.15, "_ind": 0.1}
    flags = {flag for flag, chance in chances.items() if random.random() < chance}
    pool = pick(random, CLASSES) if "uniform" in flags else [*INTEGERS, *FLOATS, "bool"]
    types = {name: "T" if "uniform" in flags else pick(random, pool) for name in [*names, *"wzu"]}
    leaves = drawn_leaves(random, names, types, pool[0], flags)
    kind = next((k for k in ("complex", "float") if any(k in x.kind for x in leaves)), "int")
    if kind == "float" and "uniform" not in flags:
        types |= {name: pick(random, FLOATS) for name in "zu"}
    body = statements(random, leaves, "uniform" in flags, kind)
    if kind == "int" and "uniform" not in flags and "bits(" in "".join(body.lines):
        types |= {n: "int64" for n in "zu" if types[n] not in INTEGERS}
    if body.worst.size > 3e4:  # float16 has no such numbers
        types |= {n: "float32" for n in "zu" if types[n] == "float16"}
    given = ", ".join([*names, "w"] if "raw" in flags else names)
    inputs = [f"{types[n]} {n}" for n in names] + [f"raw {types['w']} w"] * ("raw" in flags)
    outputs = ", ".join(f"{types[n]} {n}" for n in body.outputs)
    keywords = ", reduce_dims=False" if "_ind" in flags else ""
    if "helper" in body.operation:
        helper = "template <class R> __device__ R helper(R v) { return v * R(2) + R(1); }"
        keywords += f",\n    preamble={helper!r}"
    text = [
        f"rng = np.random.default_rng({random.integers(10**6)})",
        f"f = kspec.ElementwiseKernel(\n    {', '.join(inputs)!r}, {outputs!r},",
        f"    {body.operation!r}, 'f'{keywords})",
        f"def want({given}, shape, T=None):",
    ]
    if any("quotient" in line for line in body.lines):
        text[3:3] = ["def quotient(a, b):", "    return (a - np.fmod(a, b)) // b"]
    if any("bits(" in line for line in body.lines):
        text[3:3] = [
            "def bits(a):  # int64 and uint64 would meet in float64",
            "    return a.astype('int64') if a.dtype.kind in 'iub' else a",
        ]
    if "uniform" in flags:
        text.append(f"    P = {WIDE[kind]}")
        text.append(f"    {given}, = (get(a).astype(P) for a in ({given},))")
    else:
        for n in given.split(", "):
            wide = promoted(types[n])
            text.append(f"    {n} = get({n}).astype({wide if 'int' in wide else 'float64'!r})")
    text.append("    i = np.arange(np.prod(shape, dtype=int)).reshape(shape)")
    text += ["    " + line for line in body.lines]
    text.append(f"    return [np.broadcast_to(a, shape) for a in ({', '.join(body.outputs)},)]")
    dtypes = [pick(random, pool) for _ in range(2)]
    for _ in range(int(random.integers(2, 5))):
        text += call(random, names, types, flags, pick(random, dtypes), body)
    head = ["import ml_dtypes  # bfloat16"] if "bfloat16" in "".join(text) else []
    return "\n".join([*head, *text]) + "\n"


def call(random, names: list[str], types: dict, flags: set, dtype: str, body: Body) -> list[str]:
    """Return the lines of a call and of its check."""
    kinds = {n: dtype if kind == "T" else kind for n, kind in types.items()}
    shape = arguments.shape(random, int(pick(random, [2, 2, 3])) if "_ind" in flags else None)
    text = [f"shape = {shape}"]
    whole = int(random.integers(len(names)))
    for k, n in enumerate(names):
        if k != whole and random.random() < 0.2:
            number = "True" if kinds[n] == "bool" else "2"
            is_numpy = kinds[n] not in ("bool", "bfloat16") and random.random() < 0.4
            text.append(f"{n} = np.{kinds[n]}(2)" if is_numpy else f"{n} = {number}")
            continue
        own = shape if k == whole else arguments.thinned(random, shape)
        text.append(f"{n} = {array(random, kinds[n], own)}")
    if "raw" in flags:
        own = [(2, 3), (1, 1), (3, 2)] if "two axes" in flags else [(1,), (7,), (2, 3), (3, 1, 2)]
        text.append(f"w = {array(random, kinds['w'], pick(random, own))}")
    given = ", ".join([*names, "w"] if "raw" in flags else names)
    text.append(f"wanted = want({given}, shape{f', {dtype!r}' if 'uniform' in flags else ''})")
    made = [arguments.output(random, kinds[n], shape) for n in body.outputs]
    out = pick(random, ["out", "positional", *["", "", "", "inplace"] * (not body.reads)])
    tail = ", block_size=64" if random.random() < 0.1 else ""
    same = kinds[names[whole]] == kinds["z"] and "broadcast_to" not in text[whole + 1]
    if out == "out":
        tail += f", out={made[0] if len(made) == 1 else '(' + ', '.join(made) + ')'}"
    elif out == "positional":
        given = ", ".join([given, *made])
    elif out == "inplace" and same and body.outputs == "z":
        tail += f", out={names[whole]}"
    text.append(f"{', '.join(body.outputs)} = f({given}{tail})")
    floats = [d for d in kinds.values() if d in FLOATS + COMPLEX]
    eps = max((EPSILON.get(d, 2.0**-50) for d in floats), default=0)
    error = eps * (4 * body.worst.error + body.worst.size + 1) if body.worst.error else eps
    for k, n in enumerate(body.outputs):
        text.append(f"assert {n}.shape == shape and {n}.dtype == {kinds[n]!r}")
        if kinds[n] in FLOATS + COMPLEX:
            wide = "complex128" if kinds[n] in COMPLEX else "float64"
            text.append(
                f"np.testing.assert_allclose(get({n}).astype({wide!r}), wanted[{k}], {eps:.1e}, {error:.2g})"
            )
        elif kinds[n] == "bool":
            text.append(f"np.testing.assert_array_equal(get({n}), wanted[{k}] != 0)")
        else:
            text.append(
                f"np.testing.assert_array_equal(get({n}), wanted[{k}].astype({kinds[n]!r}))"
            )
    return text
