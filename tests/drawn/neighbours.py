"""Operations of kernels with windows, and their values in NumPy."""

from tests.drawn.arguments import pick


def offset(random, reach) -> str:
    """Return a random place in the window, as it is written."""
    return ", ".join(str(random.integers(-before, after + 1)) for before, after in reach)


def operation(random, reach, integers: bool) -> tuple[str, list[str], str]:
    """Return an operation, the lines of its value, and what it needs: nothing, weights, a number."""
    at = lambda: f"u({offset(random, reach)})"  # noqa: E731
    form = pick(
        random, ["sum", "sum", "loop", "extreme", "median", "if", "euler", "count", "moved", "axis"]
    )
    if form == "sum":
        numbers = ["2", "3", "-4", "5"] if integers else ["0.5f", "2", "-1.5", "0.25f", "3"]
        terms = [(pick(random, numbers), at()) for _ in range(int(random.integers(1, 10)))]
        py = " + ".join(f"{number.rstrip('f')} * {place}" for number, place in terms)
        return f"v = {' + '.join(f'{a} * {b}' for a, b in terms)}", [f"v = {py}"], ""
    if form == "loop":
        names = "pqrs"[: len(reach)]
        loops = " ".join(
            f"for (int {k} = {-b}; {k} <= {a}; ++{k})"
            for k, (b, a) in zip(names, reach, strict=True)
        )
        places = ", ".join(names)
        grid = [a + b + 1 for b, a in reach]
        order = "0"
        for k, (b, _), n in zip(names, reach, grid, strict=True):
            order = f"({order} * {n} + {k} + {b})" if order != "0" else f"({k} + {b})"
        weights = f"w[{order}]" if random.random() < 0.6 else "1"
        text = f"T sum = 0; {loops} sum += {weights} * u({places}); v = sum"
        steps = ", ".join(f"range({-b}, {a + 1})" for b, a in reach)
        name = "w.ravel()[" + order + "]" if weights != "1" else "1"
        lines = [
            "v = 0",
            f"for {places}, in itertools.product({steps}):",
            f"    v = v + {name} * u({places})",
        ]
        return text, lines, "w" if weights != "1" else ""
    if form == "extreme":
        name, places = (
            pick(random, ["min", "max"]),
            [at() for _ in range(int(random.integers(2, 7)))],
        )
        text = places[0]
        for place in places[1:]:
            text = f"{name}({text}, {place})"
        return f"v = {text}", [f"v = np.stack([{', '.join(places)}]).{name}(0)"], ""
    if form == "median":
        a, b, c = at(), at(), at()
        text = f"T a = {a}, b = {b}, c = {c}; T low = min(a, b), high = max(a, b); v = max(low, min(high, c))"
        return text, [f"v = np.sort(np.stack([{a}, {b}, {c}]), axis=0)[1]"], ""
    if form == "if":
        a, b, c = at(), at(), at()
        centre = f"u({', '.join('0' for _ in reach)})"
        return (
            f"if ({a} > u) v = {b}; else v = {c}",
            [f"v = np.where({a} > {centre}, {b}, {c})"],
            "",
        )
    if form == "euler":
        a, b = at(), at()
        centre = f"u({', '.join('0' for _ in reach)})"
        return (
            f"v = u + c * ({a} - 2 * u + {b})",
            [f"v = {centre} + c * ({a} - 2 * {centre} + {b})"],
            "c",
        )
    if form == "count":
        places = [at() for _ in range(int(random.integers(2, 9)))]
        text = "int alive = " + " + ".join(f"({p} > 0)" for p in places)
        py = " + ".join(f"({p} > 0).astype(int)" for p in places)
        return (
            f"{text}; v = alive == 3 || (u > 0 && alive == 2)",
            [
                f"alive = {py}",
                f"v = ((alive == 3) | ((u({', '.join('0' for _ in reach)}) > 0) & (alive == 2))).astype(int)",
            ],
            "",
        )
    if form == "moved":
        b, a = reach[-1]
        rest = ["0"] * (len(reach) - 1)
        lines = [
            f"choices = [u({', '.join([*rest, 'k'])}) for k in range({-b}, {a + 1})]",
            f"v = np.choose(np.broadcast_to(d + {b}, choices[0].shape), choices) if {a + b + 1} < 32 else None",
            f"v = np.select([d == k for k in range({-b}, {a + 1})], choices)",
        ]
        return f"v = u({', '.join([*rest, 'd'])})", lines[::2], "d"
    axis = int(random.integers(len(reach)))
    spread = [["0"] * len(reach) for _ in range(2)]
    spread[0][axis], spread[1][axis] = f"{reach[axis][1]}", f"{-reach[axis][0]}"
    a, b = (f"u({', '.join(s)})" for s in spread)
    return (
        f"v = {a} - {b}; i2 = i % 5",
        [f"v, i2 = {a} - {b}, np.arange(v0.size).reshape(v0.shape) % 5"],
        "i",
    )
