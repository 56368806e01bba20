"""Operations of elementwise kernels: what statements people write around expressions."""

from typing import NamedTuple

from tests.drawn.arguments import pick
from tests.drawn.expressions import Expression, condition, grow


class Body(NamedTuple):
    """An operation, the lines that compute its outputs in NumPy, and how large errors may be."""

    operation: str
    lines: list[str]
    worst: Expression
    outputs: str = "z"
    reads: bool = False  # old values of the output


def casts(x: Expression) -> list[Expression]:
    """Return a leaf in other types, as casts make them."""
    if "float" in x.kind:
        return [Expression(f"int({x.c})", f"np.trunc({x.py}).astype('int32')", "int32", 6)]
    byte = f"{x.py}.astype('uint8').astype('int32')"
    return [
        Expression(f"(unsigned char){x.c}", byte, "int32", 255),
        Expression(f"(long long){x.c}", f"{x.py}.astype('int64')", "int64", x.size),
        Expression(f"double({x.c})", f"{x.py}.astype('float64')", "float64", x.size),
    ]


def uniform_statements(random, leaves: list[Expression], e1, e2, kind: str) -> Body:
    """Return an operation whose variables are of the type T of all parameters."""
    worst, whole = max(e1, e2, key=lambda e: (e.error, e.size)), kind == "int"
    forms = ["temporary", "temporary", "loop"]
    form = pick(random, forms + ["sort", "preamble"] * (kind != "complex") + ["gcd"] * whole)
    narrow = ".astype(T)" if whole else ""
    if form == "temporary":
        declared = pick(random, ["T", "auto", "const T"])
        lines = [
            f"t = ({e1.py}){narrow}.astype(P)" if "T" in declared and whole else f"t = {e1.py}"
        ]
        t = Expression("t", "t", leaves[0].kind, e1.size, e1.error + e1.size, False)
        e2 = grow(random, [*leaves, t, t, t], 2)
        return Body(f"{declared} t = {e1.c}; z = {e2.c}", [*lines, f"z = {e2.py}"], e2)
    if form == "loop":
        steps = int(random.integers(1, 6))
        k = Expression("T(k)", "k", leaves[0].kind, steps)
        e1 = grow(random, [*leaves, k, k], 2)
        text = f"T s = 0; for (int k = 0; k < {steps}; ++k) s += {e1.c}; z = s"
        loop = [f"for k in np.arange({steps}).astype(P):", f"    s = s + {e1.py}"]
        error = steps * (e1.error + steps * e1.size)
        return Body(text, ["s = 0", *loop, "z = s"], e1._replace(size=steps * e1.size, error=error))
    if form == "sort":
        x = pick(random, leaves)
        text = (
            f"T a[3] = {{T({x.c}), T({e1.c}), T({e2.c})}}; for (int j = 0; j < 3; ++j) "
            "for (int k = 0; k < 2; ++k) if (a[k] > a[k + 1]) "
            "{ T t = a[k]; a[k] = a[k + 1]; a[k + 1] = t; } z = a[1]"
        )
        lines = [
            f"a = [np.asarray(e){narrow} for e in ({x.py}, {e1.py}, {e2.py})]",
            "z = np.sort(np.stack(np.broadcast_arrays(*a)), axis=0)[1]",
        ]
        return Body(text, lines, worst._replace(error=worst.error + worst.size))
    if form == "gcd":
        a, b = pick(random, leaves), pick(random, leaves)
        loop = "while (b) { T t = a % b; a = b; b = t; }"
        text = f"T a = {a.c}, b = {b.c}; {loop} z = a < 0 ? -a : a"
        return Body(text, [f"z = np.gcd({a.py}, {b.py})"], e1)
    grown = e1._replace(size=2 * e1.size + 1, error=2 * e1.error + 2 * e1.size)
    return Body(f"z = helper({e1.c})", [f"z = ({e1.py}) * 2 + 1"], grown)


def statements(random, leaves: list[Expression], uniform: bool, kind: str) -> Body:
    """Return an operation of one or two outputs."""
    e1, e2 = (grow(random, leaves, int(random.integers(1, 4))) for _ in range(2))
    if uniform and random.random() < 0.4:
        return uniform_statements(random, leaves, e1, e2, kind)
    worst = max(e1, e2, key=lambda e: (e.error, e.size))
    form = pick(random, ["plain"] * 4 + ["if", "two", "accumulate", "continue", "switch"])
    c, py = condition(random, [leaf for leaf in leaves if leaf.leaf])
    if form == "if":
        lines = [f"z = np.where({py}, bits({e1.py}), bits({e2.py}))"]
        return Body(f"if ({c}) z = {e1.c}; else z = {e2.c}", lines, worst)
    if form == "two":
        return Body(f"z = {e1.c}; u = {e2.c}", [f"z, u = {e1.py}, {e2.py}"], worst, "zu")
    if form == "accumulate" and e1.size < 1e9:  # integers that wrap would do so again
        grown = e1._replace(error=e1.error + e1.size + 1)
        return Body(f"z += {e1.c}", [f"z = 1 + {e1.py}"], grown, reads=True)
    if form == "continue":
        lines = [f"z = np.where({py}, 1, bits({e1.py}))"]
        return Body(f"if ({c}) continue; z = {e1.c}", lines, e1, reads=True)
    if form == "switch":
        cases = f"case 0: z = {e1.c}; break; case 1: {{ z = {e2.c}; break; }} default: z = 3;"
        chosen = f"[i % 3 == 0, i % 3 == 1], [bits({e1.py}), bits({e2.py})]"
        return Body(f"switch (i % 3) {{ {cases} }}", [f"z = np.select({chosen}, 3)"], worst)
    return Body(f"z = {e1.c}", [f"z = {e1.py}"], e1)
