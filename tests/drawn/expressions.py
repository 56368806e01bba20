"""Expressions in CUDA C++ and, of the same value, in NumPy.

`grow` makes a tree of leaves. NumPy's operands have the types that C++ promotes to (integers of at
least 32 bits), or are float64 and complex128. Each `Expression` says how large its values are, and
how far rounding may move them.
"""

from typing import NamedTuple

from tests.drawn.arguments import COMPLEX, pick

LIMIT = 2.0**30  # of signed integers; nothing overflows
FLOAT_LIMIT = 2e3
UNARY = {  # of floats, with derivatives of at most about 1
    "sin({})": "np.sin({})",
    "cos({})": "np.cos({})",
    "tanh({})": "np.tanh({})",
    "atan({})": "np.arctan({})",
    "exp(-fabs({}))": "np.exp(-np.abs({}))",
    "log1p(fabs({}))": "np.log1p(np.abs({}))",
    "sqrt(1 + fabs({}))": "np.sqrt(1 + np.abs({}))",
    "asinh({})": "np.arcsinh({})",
    "fabs({})": "np.abs({})",
    "-{}": "-{}",
}
STEPS = {
    "floor({})": "np.floor({})",
    "ceil({})": "np.ceil({})",
    "trunc({})": "np.trunc({})",
    "rint({})": "np.rint({})",
    "exp({} / 4)": "np.exp({} / 4)",
    "cbrt({})": "np.cbrt({})",
    "exp2({} / 4)": "np.exp2({} / 4)",
}
BINARY = {
    "fmin({}, {})": "np.fmin({}, {})",
    "fmax({}, {})": "np.fmax({}, {})",
    "min({}, {})": "np.fmin({}, {})",
    "max({}, {})": "np.fmax({}, {})",
    "hypot({}, {})": "np.hypot({}, {})",
    "kspec::ufunc::maximum(double({}), double({}))": "np.maximum({}, {})",
}


class Expression(NamedTuple):
    """An expression as C++ and as NumPy, the C++ type of its value, its size and its error."""

    c: str
    py: str
    kind: str
    size: float
    error: float = 0  # in units of the rounding of one operation
    leaf: bool = True


def common(a: str, b: str) -> str:
    """Return the type that C++ computes with, of two that are promoted already."""
    order = ["int32", "uint32", "int64", "uint64", "float32", "float64"]
    return order[max(order.index(a), order.index(b))] if a in order else a


def both(a: Expression, b: Expression) -> tuple[str, str, str]:
    """Return the type of an operation of both, and their NumPy texts, converted as C++ does."""
    kind = common(a.kind, b.kind)
    if a.kind == b.kind or "int" not in kind:
        return kind, a.py, b.py
    return kind, *(x.py if x.kind == kind else f"{x.py}.astype({kind!r})" for x in (a, b))


def condition(random, leaves: list[Expression]) -> tuple[str, str]:
    """Return a comparison of leaves, which are exact, in C++ and in NumPy."""
    a, b = pick(random, leaves), pick(random, leaves)
    if a.kind in COMPLEX:
        return f"real({a.c}) < imag({b.c})", f"{a.py}.real < {b.py}.imag"
    sign = pick(random, ["<", "<=", ">", ">=", "==", "!="])
    if random.random() < 0.5 or a == b:
        return f"{a.c} {sign} 1", f"{a.py} {sign} 1"
    _, left, right = both(a, b)
    if random.random() < 0.2:
        return f"{a.c} {sign} 2 && {b.c} > 0", f"({a.py} {sign} 2) & ({b.py} > 0)"
    return f"{a.c} {sign} {b.c}", f"{left} {sign} {right}"


def integer(random, leaves: list[Expression], depth: int) -> Expression:
    """Return an integer expression."""
    a, b = (grow(random, leaves, depth - 1) for _ in range(2))
    found = operation(random, a, b)
    wraps = found.kind[0] == "u" and "i" in (a.kind[0], b.kind[0])  # negative ones become large
    return found._replace(size=2.0**64) if wraps else found


def operation(random, a: Expression, b: Expression) -> Expression:
    """Return an operation of two integers."""
    signed = a.kind[0] != "u"
    kind, left, right = both(a, b)
    choice = pick(
        random, ["+", "-", "*", "+", "-", "*", "&", "|", "^", ">>", "/", "%", "~", "max", "<<"]
    )
    if choice in "+-":
        size = a.size + b.size if kind[0] != "u" or choice == "+" else 2.0**64
        return Expression(f"({a.c} {choice} {b.c})", f"({left} {choice} {right})", kind, size)
    if choice == "*":
        return Expression(f"({a.c} * {b.c})", f"({left} * {right})", kind, a.size * b.size)
    if choice in "&|^":
        size = 2 * max(a.size, b.size) + 1
        return Expression(f"({a.c} {choice} {b.c})", f"({left} {choice} {right})", kind, size)
    if choice == ">>":
        return Expression(f"({a.c} >> 2)", f"({a.py} >> 2)", a.kind, a.size)
    if choice == "<<":
        return Expression(f"(({a.c} & 15) << 3)", f"(({a.py} & 15) << 3)", a.kind, 120)
    if choice == "/":
        return Expression(f"({a.c} / ({b.c} | 1))", f"quotient({left}, {right} | 1)", kind, a.size)
    if choice == "%":
        return Expression(f"({a.c} % ({b.c} | 1))", f"np.fmod({left}, {right} | 1)", kind, a.size)
    if choice == "~":
        return Expression(f"~{a.c}", f"~{a.py}", a.kind, a.size + 1 if signed else 2.0**64)
    if a.kind != b.kind:
        return a
    return Expression(
        f"max({a.c}, {b.c})", f"np.maximum({left}, {right})", kind, max(a.size, b.size)
    )


def floating(random, leaves: list[Expression], depth: int) -> Expression:
    """Return an expression of floats, or of floats and integers."""
    a, b = (grow(random, leaves, depth - 1) for _ in range(2))
    kind, error = common(a.kind, b.kind), a.error + b.error
    choice = pick(random, ["+", "-", "*", "/", "unary", "unary", "step", "binary", "fma"])
    if "int" in kind:
        return integer(random, [a, b], 1)
    if choice in "+-":
        size = a.size + b.size
        return Expression(
            f"({a.c} {choice} {b.c})", f"({a.py} {choice} {b.py})", kind, size, error + size
        )
    if choice == "*":
        size, error = a.size * b.size, a.error * b.size + b.error * a.size
        return Expression(f"({a.c} * {b.c})", f"({a.py} * {b.py})", kind, size, error + size)
    if choice == "/" and "int" not in b.kind:
        error = a.error + a.size * (b.error + 2)
        return Expression(
            f"({a.c} / (1 + {b.c} * {b.c}))",
            f"({a.py} / (1 + {b.py} * {b.py}))",
            kind,
            a.size,
            error,
        )
    if choice == "fma" and a.kind == b.kind:
        error = a.size * b.error + b.size * a.error + a.error + a.size * (b.size + 1)
        return Expression(
            f"fma({a.c}, {b.c}, {a.c})",
            f"({a.py} * {b.py} + {a.py})",
            kind,
            a.size * (b.size + 1),
            error,
        )
    if choice == "unary" and "int" not in a.kind:
        c, py = pick(random, list(UNARY.items()))
        return Expression(
            f"{c.format(a.c)}" if c[0] != "-" else f"(-{a.c})",
            f"({py.format(a.py)})",
            a.kind,
            a.size + 1,
            a.error + a.size + 1,
        )
    exact = [leaf for leaf in leaves if leaf.leaf and "int" not in leaf.kind]
    if choice == "step" and exact:
        a = pick(random, exact)
        c, py = pick(random, list(STEPS.items()))
        return Expression(c.format(a.c), py.format(a.py), a.kind, a.size + 1, 4 * a.size)
    if a.kind != b.kind:
        return a
    c, py = pick(random, list(BINARY.items()))
    return Expression(
        c.format(a.c, b.c), py.format(a.py, b.py), kind, a.size + b.size, error + a.size + b.size
    )


def complexes(random, leaves: list[Expression], depth: int) -> Expression:
    """Return an expression of complex numbers of one type."""
    a, b = (grow(random, leaves, depth - 1) for _ in range(2))
    choice = pick(random, ["+", "-", "*", "+", "*", "conj", "abs", "T", "/"])
    kind, size, error = a.kind, a.size + b.size, a.error + b.error
    if choice in "+-":
        return Expression(
            f"({a.c} {choice} {b.c})", f"({a.py} {choice} {b.py})", kind, size, error + size
        )
    if choice == "*":
        size, error = a.size * b.size, a.size * b.error + b.size * a.error
        return Expression(f"({a.c} * {b.c})", f"({a.py} * {b.py})", kind, size, error + 2 * size)
    if choice == "/":
        error = a.error + 2 * a.size * (1 + b.error)
        return Expression(
            f"({a.c} / (norm({b.c}) + 1))",
            f"({a.py} / (np.abs({b.py}) ** 2 + 1))",
            kind,
            a.size,
            error,
        )
    if choice == "conj":
        return Expression(f"conj({a.c})", f"np.conj({a.py})", kind, a.size, a.error)
    if choice == "abs":
        return Expression(f"T(abs({a.c}))", f"np.abs({a.py})", kind, a.size, a.error + a.size)
    return Expression(
        f"T(imag({a.c}), real({b.c}))",
        f"(np.imag({a.py}) + 1j * np.real({b.py}))",
        kind,
        size,
        error,
    )


def grow(random, leaves: list[Expression], depth: int) -> Expression:
    """Return an expression of the leaves, of small values."""
    leaf = pick(random, leaves)
    if depth == 0 or random.random() < 0.1:
        return leaf
    if random.random() < 0.12:
        a, b = (grow(random, leaves, depth - 1) for _ in range(2))
        if a.kind == b.kind:
            c, py = condition(random, [leaf for leaf in leaves if leaf.leaf] or leaves)
            size, error = max(a.size, b.size), max(a.error, b.error)
            if "float" in a.kind and not (a.leaf and b.leaf):  # float16 and float have no type
                a, b = a._replace(c=f"{a.c} + 0"), b._replace(c=f"{b.c} + 0")
            found = Expression(
                f"({c} ? {a.c} : {b.c})", f"np.where({py}, {a.py}, {b.py})", a.kind, size, error
            )
            return found._replace(leaf=False)
    make = floating if any("float" in x.kind for x in leaves) else integer
    found = (complexes if leaf.kind in COMPLEX else make)(random, leaves, depth)._replace(
        leaf=False
    )
    large = LIMIT if "int" in found.kind else FLOAT_LIMIT
    return leaf if found.size > large and found.kind[0] != "u" else found
