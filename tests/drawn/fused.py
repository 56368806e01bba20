"""Functions of NumPy code, fused: each is compared with itself on NumPy's arrays.

A function is drawn line by line. Each line is evaluated on the arguments, and once more with all floats
as float64: where both agree, and no function rounds, the value is exact, so that comparisons, casts and
positions of it are defined. Other values have a tolerance, which follows from the difference.
"""

import math
import re
from typing import Any

import numpy as np
from scipy import special

from tests.drawn.arguments import pick
from tests.drawn.parts import array, extent, head

# fmt: off
FLOATS = ("float16", "float32", "float64")
DTYPES = (*FLOATS, *FLOATS, "int8", "uint8", "int16", "int32", "int64", "uint32", "uint64", "bool", "bfloat16", "complex64", "complex128")
ROUNDING = (
    "np.sqrt(abs(A))", "np.exp(-abs(A))", "np.tanh(A)", "np.sin(A)", "np.cos(A)", "np.log1p(abs(A))", "np.expm1(-abs(A))", "np.arctan(A)", "np.cbrt(A)", "A / (abs(B) + 1)", "A / 3", "1 / (1 + abs(A))", "np.hypot(A, B)", "np.arctan2(A, B)", "np.logaddexp(A, B)", "A.mean(X)", "A.var(X)", "A.std(X)", "np.mean(A)", "A * 0.1", "A / A.size", "np.power(abs(A), 0.5)", "abs(A) ** 0.5", "np.sinc(A)", "np.reciprocal(abs(A) + 1.0)", "np.exp2(-abs(A))", "np.angle(A)", "A / np.float32(7)", "np.mean(A, X, dtype=np.float64)", "A - A.mean(X)", "A - np.mean(A)", "np.exp(A - A.max(X))", "A / (np.sum(abs(A), X) + 1)", "np.nanmean(A, X)", "special.erf(A)", "special.expit(A)", "np.mean(C, X)", "np.sqrt(np.square(A).mean(X) + 1)", "A.std(X) + A", "np.nanvar(A, X)", "A * np.float64(0.3)",
)
SMOOTH = (
    "A + B", "A - B", "A * B", "A + B", "A - B", "A * B", "-A", "abs(A)", "np.square(A)", "np.maximum(A, B)", "np.minimum(A, B)", "np.fmax(A, B)", "np.fmin(A, B)",
    "A + 1", "2 * A", "1.5 - A", "A * np.float32(0.5)", "A + np.int8(3)", "A - True", "A * 2j", "np.where(C, A, B)", "np.where(C, A, 0)", "np.where(C, 1.5, A)", "np.clip(A, -2, 3)", "A.clip(0, 5)",
    "A.sum(X)", "A.sum(X)", "A.max(X)", "A.min(X)", "np.sum(A)", "np.max(A)", "A.sum(X, dtype=np.float64)", "np.ptp(A, X)", "A.astype(np.float32)", "A.astype(np.float64)", "A.astype(np.complex64)", "np.conj(A)", "A.real", "A.imag",
    "A ** 2", "A ** 3", "A[::-1]", "A.T", "np.expand_dims(A, 0)", "A[..., None]", "A[:, :1]", "A[0]", "A.ravel()", "A[..., ::2]", "np.flip(A, 0)", "np.where(C, A, B) + A", "np.positive(A)", "A.reshape(A.shape[0], -1)", "np.ones_like(A) + A", "A.prod(X)", "A + s", "s * A", "np.maximum(A, s)", "s - A", "A * A.shape[-1]", "np.copysign(A, A)", "np.nansum(A, X)", "inner(A, B)", "inner(A, 1)", "inner(inner(A, B), A)", "np.swapaxes(A, 0, 1)",
    "A[..., 1:] - A[..., :-1]", "A[1:]", "A[-1]", "A[..., 0]", "A[::-1, ::-1]", "np.broadcast_to(A, x.shape)", "np.moveaxis(A, 0, -1)", "np.squeeze(A)", "np.full_like(A, 3)", "A.copy()", "np.nan_to_num(A)", "np.nanmax(A, X)", "np.amin(A, X)", "A - A.max(X)", "A * A.sum(X)", "A + A.min(X)", "A.flatten()", "np.sum(A * B, X)", "np.clip(A, None, 3)", "np.minimum(A, 2)", "np.where(A == A, A, B)", "A.sum(X) + A.max(X)",
)
EXACT = (
    "A < B", "A <= B", "A == B", "A != B", "A > 0", "A >= 2", "A != 0", "A > B", "A < s", "~C", "C & D", "C | D", "C ^ D", "np.logical_and(A, B)", "np.logical_or(A, C)", "np.logical_not(A)", "np.logical_xor(A, B)", "np.isfinite(A)", "np.isnan(A)",
    "A // 3", "A % 4", "A // (abs(B) + 1)", "A % (abs(B) + 1)", "A // B", "A % B", "np.fmod(A, B)", "np.floor(A)", "np.ceil(A)", "np.trunc(A)", "np.rint(A)", "np.around(A)", "np.sign(A)", "A & B", "A | B", "A ^ B", "A << 2", "A >> 1", "~A",
    "A.astype(np.int32)", "A.astype(np.int64)", "A.astype(np.int8)", "A.astype(bool)", "A.argmax(X)", "A.argmin(-1)", "A.any(X)", "A.all(X)", "np.count_nonzero(A, axis=-1)", "C.sum(X)", "C * A", "C + C", "C.any()", "np.all(C)", "np.gcd(A, B)", "np.lcm(A, B)", "A.astype(np.uint8)", "np.signbit(A)", "np.heaviside(A, 0.5)", "np.floor_divide(A, 2)", "np.remainder(A, 3)", "np.left_shift(A, 1)", "np.isclose(A, B)", "np.invert(A)",
)
# GPUs and CPUs convert floats that an integer type has no number for to other ones.
WRITES = ("A += B", "A -= B", "A *= 2", "A *= B", "A[...] = abs(B) % 8", "np.add(A, B, out=A)", "np.multiply(A, 2, out=A)", "A += 1", "np.negative(A, out=A)", "np.copyto(A, B)", "A.T[...] = abs(B) % 8", "A[::-1] -= B", "np.maximum(A, B, out=A)")
AXES = ("axis=-1", "axis=0", "axis=-1, keepdims=True", "axis=-1, keepdims=True", "axis=0, keepdims=True", "axis=(0, 1)", "keepdims=True")
# fmt: on


def inner(a: Any, b: Any) -> Any:
    """Return ``a * 2 - b``, as the fused function of this name does."""
    return a * 2 - b


def shadow(value: Any) -> Any:
    """Return a value with its floats as float64."""
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    return value.astype({"f": "f8", "c": "c16"}[kind]) if kind in ("f", "c") else value


def equal(a: Any, b: Any) -> bool:
    """Say whether two values are the same numbers."""
    return np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind in "fc")


class Run:
    """The values of a function's names for some arguments, and whether they are exact."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self.brain = any(
            getattr(value, "dtype", None) == "bfloat16" for value in arguments.values()
        )
        arguments = {
            name: value.astype("f4") if getattr(value, "dtype", None) == "bfloat16" else value
            for name, value in arguments.items()
        }
        self.real = {
            name: value.copy() if isinstance(value, np.ndarray) else value
            for name, value in arguments.items()
        }
        self.wide = {name: shadow(value) for name, value in self.real.items()}
        self.special = any(
            np.asarray(value).dtype.kind == "f" and not np.isfinite(value).all()
            for value in arguments.values()
        )
        self.exact, self.epsilon = set(arguments), 2.0**-7 if self.brain else 0.0

    def write(self, text: str, used: set[str]) -> bool:
        """Run an assignment in place; names that share its memory are exact if it is."""
        name = (
            re.sub(r"\.T|\[.*", "", text.split(" ")[0])
            if "np." not in text
            else re.findall(r"t\d+|x|y", text)[0]
        )
        target = np.asarray(self.real[name])
        if target.ndim == 0 or any(
            np.asarray(v).size != target.size and np.shares_memory(v, target)
            for v in self.real.values()
        ):
            return False  # numbers are not written to, nor parts of arrays
        try:
            with np.errstate(all="ignore"):
                exec(text, {"np": np}, self.real)
                exec(text, {"np": np}, self.wide)
        except Exception:
            return False
        for other, value in self.real.items():
            if np.shares_memory(value, self.real[name]):
                kept = used <= self.exact and equal(value, self.wide[other])
                self.exact = self.exact | {other} if kept else self.exact - {other}
                number = np.asarray(value)
                if (not kept and number.dtype.kind in "biu") or (
                    number.dtype.kind in "fc"
                    and number.size
                    and np.nanmax(abs(np.where(np.isfinite(number), number, 0))) > 1e4
                ):
                    return False
        return True

    def step(self, target: str, text: str, used: set[str], sort: tuple) -> bool:
        """Evaluate a line; False if it is not what a test should have."""
        if sort is WRITES:
            return not self.brain and self.write(text, used)
        if "special" in text and any(
            np.asarray(self.real[name]).dtype.name not in ("float32", "float64") for name in used
        ):
            return False  # SciPy has other types
        if sort is EXACT and not used <= self.exact:
            return False
        wider = re.sub(r"float(16|32)", "float64", text).replace("complex64", "complex128")
        try:
            with np.errstate(all="ignore"):
                value = eval(text, {"np": np, "special": special, "inner": inner}, self.real)
                wide = eval(wider, {"np": np, "special": special, "inner": inner}, self.wide)
        except Exception:
            return False
        number = np.asarray(value)
        if number.size and number.dtype.kind in "fc":
            fine = np.isfinite(number)
            if (
                not np.array_equal(fine, np.isfinite(wide))
                or abs(np.where(fine, number, 0)).max() > 1e4
                or (not fine.all() and not self.special)
            ):
                return False
        if self.special and re.search("signbit|copysign|astype.np.u?int", text):
            return False
        if (
            (number.size == 0 and number.ndim == 0)
            or number.ndim > 4
            or number.size > 10**5
            or number.dtype == object
        ):
            return False
        if (
            np.asarray(wide).size
            and np.asarray(wide).dtype.kind in "fc"
            and number.dtype.kind in "iu"
            and not np.isfinite(wide).all()
        ):
            return False
        cast = re.match(r"\w+\.astype\(np\.u?int", text)
        if (
            cast
            and (source := np.asarray(self.real[text.split(".")[0]])).dtype.kind not in "biu"
            and not equal(
                np.trunc(source.astype("f8")) if source.dtype.kind == "f" else None,
                number.astype("f8"),
            )
        ):
            return False
        if number.dtype.kind in "biu" and not used <= self.exact:
            return False
        self.real[target], self.wide[target] = value, wide
        narrow = [np.asarray(v).dtype for v in (value, *(self.real[name] for name in used))]
        self.epsilon = max(
            [self.epsilon, *(float(np.finfo(d).eps) for d in narrow if d.kind in "fc")]
        )
        self.exact -= {target}
        complexes = text.startswith("abs") and any(
            np.asarray(self.real[name]).dtype.kind == "c" for name in used
        )
        if (
            used <= self.exact
            and sort is not ROUNDING
            and not complexes
            and (
                number.dtype.kind not in "fc"
                or (
                    equal(value, wide)
                    and not (self.brain and not equal(number.real.astype("bfloat16"), number.real))
                )
            )
        ):
            self.exact.add(target)
        return True


def draw(random: np.random.Generator) -> str:
    """Return a program with a fused function and some calls of it."""
    first = head(random)
    environment: dict[str, Any] = {"np": np, "xp": np}
    exec(first, environment)
    scalars = (
        "2",
        "-3",
        "0.5",
        "True",
        "np.float32(1.5)",
        "np.int16(2)",
        "np.float64(0.25)",
        "5",
        "np.uint8(3)",
    )
    scalar = pick(random, scalars)
    rows, columns = extent(random, 40, 0), extent(random, pick(random, (9, 100, 2000)), 0)

    axes = int(pick(random, (0, 0, 0, 0, 1, 2, 2, 3)))

    def arguments(dtypes: tuple[str, str], rows: int, columns: int) -> str:
        whole = ((rows, columns), (2, rows, columns), (columns,), ())[axes]
        other = pick(random, (whole, whole, whole[-1:], (rows, 1), (1, columns), ()))
        lines = [
            f"{name} = {array(random, dtype, extents, 5)}"
            for name, dtype, extents in zip("xy", dtypes, (whole, other), strict=True)
        ]
        for name, dtype, extents in zip("xy", dtypes, (whole, other), strict=True):
            if dtype in FLOATS and math.prod(extents) and extents and random.random() < 0.08:
                step, special = int(random.integers(1, 9)), pick(random, ("nan", "inf", "nan"))
                lines.append(f"{name} = {name}.copy(); {name}[..., ::{step}] = np.{special}")
            elif "broadcast" in lines["xy".index(name)]:
                lines.append(f"{name} = {name}.copy()")
        return "\n".join([*lines, f"s = {scalar}\n"])

    dtypes = (pick(random, DTYPES), pick(random, DTYPES))
    made = arguments(dtypes, rows, columns)
    exec(made, environment)
    given = {name: environment[name] for name in "xys"}
    run, lines, used = Run(given), [], set()
    wanted = int(random.integers(3, 13))
    names = ["x", "y"]
    writes = (WRITES,) if random.random() < 0.3 else ()
    for _ in range(60):
        if len(lines) == wanted:
            break
        sort = pick(random, (ROUNDING, SMOOTH, SMOOTH, SMOOTH, EXACT, EXACT, *writes))
        text = pick(random, sort).replace("X", pick(random, AXES))
        bools = [name for name in names if np.asarray(run.real[name]).dtype == bool]
        chosen = {}
        for hole in "ABCD":
            if re.search(rf"\b{hole}\b", text):
                pool = bools if hole in "CD" else names[-4:] if random.random() < 0.8 else names
                if not pool:
                    break
                chosen[hole] = pick(random, pool)
        else:
            text = re.sub(r"\b[A-D]\b", lambda hole, chosen=chosen: chosen[hole[0]], text)
            target = f"t{len(lines)}"
            operands = set(chosen.values()) | ({"s"} if re.search(r"\bs\b", text) else set())
            if sort is WRITES and chosen["A"] in "xy" and random.random() < 0.5:
                continue
            if not run.step(target, text, operands, sort):
                if sort is WRITES:  # it may have written
                    run = Run(given)
                    for line in lines:
                        run.step(*line)
            elif sort is WRITES:
                lines.append(("", text, operands, sort))
            else:
                lines.append((target, text, operands, sort))
                used |= operands
                names.append(target)
    returned = [name for name in names[2:] if name not in used or random.random() < 0.1] or names[
        -1:
    ]
    if random.random() < 0.15:
        returned.append(
            pick(random, ("x", returned[0], "3", "s", "x.ndim", "x.ndim + 1", "s + 1", "x.size"))
        )
    options = pick(random, ("", "", ", round_each=True"))
    body = [(target, text) for target, text, *_ in lines]
    kept = [text for target, text in body if not target]
    for k in range(len(body) - 1):  # a name that the next line alone reads is written there
        target, text = body[k]
        if (
            target
            and not writes
            and target not in returned
            and sum(len(re.findall(rf"\b{target}\b", later)) for _, later in body) == 1
            and re.search(rf"\b{target}\b", body[k + 1][1])
            and random.random() < 0.5
        ):
            body[k + 1] = (body[k + 1][0], re.sub(rf"\b{target}\b", f"({text})", body[k + 1][1]))
            body[k] = (target, "")
    first += (
        "import os\nfrom scipy import special\n@kspec.fuse\ndef inner(a, b): return a * 2 - b\n"
        + f'os.environ["KSPEC_FUSE_ROWS"] = "{pick(random, ("auto", "always"))}"\n'
    )
    text = first + f'@kspec.fuse(device="host"{options})\ndef f(x, y, s):\n'
    text += (
        "".join(
            f"    {target} = {line}\n" if target else f"    {line}\n"
            for target, line in body
            if line
        )
        + f"    return {', '.join(returned)}\n"
    )
    for call in range(4):
        if call:
            dtypes = pick(
                random,
                (
                    dtypes,
                    dtypes,
                    (pick(random, DTYPES), dtypes[1]),
                    (pick(random, DTYPES), pick(random, DTYPES)),
                ),
            )
            made = arguments(
                dtypes,
                pick(random, (rows, 1, extent(random, 40))),
                pick(random, (columns, extent(random, 300))),
            )
            exec(made, environment)
            run = Run({name: environment[name] for name in "xys"})
            if not all(run.step(*line) for line in lines):
                continue
        errors = []
        for name in (*returned, *(("x", "y") if kept else ())):
            value, wide = np.asarray(run.real.get(name, 0)), np.asarray(run.wide.get(name, 0))
            epsilon = 0.0 if name in run.exact or value.dtype.kind in "biu" else run.epsilon
            errors.append(
                float(
                    f"{(8 * np.abs((value - wide)[np.isfinite(wide)]).max(initial=0) + 64 * epsilon * max(1.0, np.abs(wide[np.isfinite(wide)]).max(initial=0))) if epsilon and value.size else 0:.1e}"
                )
            )
        text += (
            made
            + "hx, hy = (h.astype('f4') if (h := get(a).copy()).dtype == 'bfloat16' else h for a in (x, y)); want = f.func(hx, hy, s); got = f(x, y, s)\n"
        )
        text += "got, want = (got, ), (want, )\n" if len(returned) == 1 else ""
        text += "got, want = (*got, x, y), (*want, hx, hy)\n" if kept else ""
        text += f"for g, w, atol in zip(got, want, {errors}, strict=True):\n    g, w = get(g), np.asarray(w)\n    assert (g.dtype, g.shape) == (w.dtype, w.shape) or 'bfloat16' in (x.dtype, y.dtype) and g.shape == w.shape, (g.dtype, w.dtype, g.shape, w.shape)\n    np.testing.assert_allclose(wide(g), wide(w), rtol=0, atol=atol)\n"
    return text
