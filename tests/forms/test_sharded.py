"""Forms on shards: carries of scans, segments across shards, keys in all shards, halos."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from kspec_kernels import statistics

import kspec
from kspec import sharded
from kspec.errors import ArgumentTypeError, NotSupportedError, ShapeError
from tests.forms import reference
from tests.forms.kernels import (
    CSR,
    MAX,
    MODELS,
    NO_IDENTITY,
    OF_SEGMENT,
    PLACE,
    PLUS_TEN,
    SCALED,
    SUM,
    TWO,
    WEIGHTED,
)
from tests.forms.reference import integers, sums_by_key
from tests.forms.test_by_key import keys_of
from tests.runtime.exporters import Exporter
from tests.test_sharded import PLACES, Shards, present

# Extents of shards, some of them empty.
EXTENTS = [(3, 0, 5, 1, 0, 4), (0, 2, 11), (13, 0), (1, 1, 1, 10), (13,)]
BOUNDARIES = ["valid", "nearest", "reflect", "mirror", "wrap", "shrink"]


@pytest.fixture(params=PLACES, ids=repr)
def shards(request: pytest.FixtureRequest) -> Shards:
    return present(request.param)


def divided(shards: Shards, values: Any, extents: tuple[int, ...], along: int = 0) -> list[Any]:
    """Return shards of these extents; devices take turns."""
    ends = np.cumsum(extents)[:-1]
    places = itertools.cycle(shards.ordinals)
    pieces = np.split(np.asarray(values), ends, axis=along)
    return [shards.array(one, where) for one, where in zip(pieces, places, strict=False)]


def copies(shards: Shards, values: Any, count: int) -> list[Any]:
    places = itertools.cycle(shards.ordinals)
    return [shards.array(values, where) for _, where in zip(range(count), places, strict=False)]


def whole(shards: Shards, pieces: Any, along: int = 0) -> Any:
    """Return the undivided outputs."""
    if isinstance(pieces, tuple):
        return tuple(whole(shards, one, along) for one in pieces)
    return np.concatenate([shards.numpy(one) for one in pieces], axis=along)


class TestScan:
    @pytest.mark.parametrize("name", ["sum", "mean", "matrices", "hash", "two", "wide"])
    def test_models(self, shards: Shards, name: str) -> None:
        """Counts, structs, operators that do not commute, several outputs."""
        model = MODELS[name]
        inputs = model.draw(13, 4, seed=1)
        for number, extents in enumerate(EXTENTS):
            exclusive, reverse = bool(number & 1), bool(number & 2)
            pieces = [divided(shards, one, extents) for one in inputs]
            got = sharded.apply(
                model.kernel.scan, *pieces, axis=0, exclusive=exclusive, reverse=reverse
            )
            wanted = model.scan(inputs, 0, exclusive=exclusive, reverse=reverse)
            model.check(whole(shards, got), wanted, f"{extents}")

    @pytest.mark.parametrize("exclusive", [False, True])
    @pytest.mark.parametrize("reverse", [False, True])
    @pytest.mark.parametrize("along", [0, 1, -1])
    def test_axes(self, shards: Shards, along: int, reverse: bool, exclusive: bool) -> None:
        x = integers(6, 13, 13)
        extents = (2, 0, 3, 1) if along == 0 else (3, 0, 5, 1, 4)
        for axis in range(3):
            keywords = {"axis": axis, "reverse": reverse, "exclusive": exclusive}
            got = sharded.apply(
                SUM.scan, divided(shards, x, extents, along), along=along, **keywords
            )
            np.testing.assert_array_equal(whole(shards, got, along), SUM.scan(x, **keywords))

    def test_shards_stay_where_they_are(self, shards: Shards) -> None:
        pieces = divided(shards, integers(40, 3), (10, 10, 10, 10))
        got = sharded.apply(SUM.scan, pieces, axis=0)
        assert [shards.ordinal(one) for one in got] == [shards.ordinal(one) for one in pieces]
        assert [type(one) for one in got] == [type(one) for one in pieces]

    def test_the_axis_is_the_last_one_by_default(self, shards: Shards) -> None:
        x = integers(6, 5)
        got = sharded.apply(SUM.scan, divided(shards, x, (2, 4)))
        np.testing.assert_array_equal(whole(shards, got), np.cumsum(x, -1))

    def test_floats(self, shards: Shards) -> None:
        x = np.random.default_rng(0).normal(size=10_000)
        got = sharded.apply(SUM.scan, divided(shards, x, (4000, 1, 5999)))
        np.testing.assert_allclose(whole(shards, got), np.cumsum(x), rtol=1e-11, atol=1e-10)

    def test_structs_of_floats(self, shards: Shards) -> None:
        model = MODELS["first_order"]
        inputs = model.draw(300, 3)
        pieces = [divided(shards, one, (100, 7, 193)) for one in inputs]
        got = sharded.apply(model.kernel.scan, *pieces, axis=0)
        model.check(whole(shards, got), model.scan(inputs, 0))

    def test_copies_scalars_and_strides(self, shards: Shards) -> None:
        x, w = integers(13, 8), integers(8, seed=1)
        for view in (lambda one: one[:, ::2], lambda one: one[:, 4:]):
            pieces = [view(one) for one in divided(shards, x, (3, 6, 4))]
            weights = copies(shards, view(w[None])[0], 3)
            got = sharded.apply(WEIGHTED.scan, pieces, weights, axis=0)
            np.testing.assert_array_equal(whole(shards, got), np.cumsum(view(x) * view(w[None]), 0))
        got = sharded.apply(SCALED.scan, divided(shards, x, (3, 6, 4)), 3, axis=0)
        np.testing.assert_array_equal(whole(shards, got), 3 * np.cumsum(x, 0))

    def test_identities(self, shards: Shards) -> None:
        """The identity is in each output once, and only exclusive scans need one."""
        x = integers(13)
        for exclusive in (False, True):
            pieces = divided(shards, x, (3, 0, 10))
            got = sharded.apply(PLUS_TEN.scan, pieces, exclusive=exclusive)
            np.testing.assert_array_equal(whole(shards, got), PLUS_TEN.scan(x, exclusive=exclusive))
        got = sharded.apply(NO_IDENTITY.scan, divided(shards, x, (3, 0, 10)))
        np.testing.assert_array_equal(whole(shards, got), np.maximum.accumulate(x))

    def test_nothing(self, shards: Shards) -> None:
        got = sharded.apply(SUM.scan, divided(shards, np.ones((0, 3)), (0, 0)), axis=0)
        assert whole(shards, got).shape == (0, 3)
        got = sharded.apply(SUM.scan, divided(shards, np.ones((4, 0)), (3, 1)), axis=0)
        assert whole(shards, got).shape == (4, 0)

    def test_again(self, shards: Shards) -> None:
        """Equal calls give equal bits, and carries are not overwritten before they are read."""
        pieces = divided(shards, np.random.default_rng(3).normal(size=(600, 40)), (200, 100, 300))
        first, *others = (
            whole(shards, one)
            for one in [sharded.apply(SUM.scan, pieces, axis=0) for _ in range(4)]
        )
        for other in others:
            assert other.tobytes() == first.tobytes()


class TestSegments:
    @pytest.mark.parametrize("name", ["sum", "mean", "matrices", "hash", "two"])
    @pytest.mark.parametrize("kind", ["short", "long", "empty", "one", "none", "inside"])
    def test_models(self, shards: Shards, name: str, kind: str) -> None:
        model = MODELS[name]
        inputs = model.draw(13, 4, seed=2)
        bounds = reference.bounds(13, kind)
        for extents in EXTENTS[::2]:
            pieces = [divided(shards, one, extents) for one in inputs]
            got = sharded.apply(model.kernel.segments, *pieces, bounds)
            model.check(whole(shards, got), model.segments(inputs, bounds), f"{extents}")

    def test_a_segment_is_where_it_begins(self, shards: Shards) -> None:
        pieces = divided(shards, integers(12), (4, 4, 4))
        got = sharded.apply(SUM.segments, pieces, indptr=np.array([0, 2, 9, 9, 12, 12]))
        assert [len(one) for one in got] == [2, 0, 3]
        assert [shards.ordinal(one) for one in got] == [shards.ordinal(one) for one in pieces]

    def test_other_axes(self, shards: Shards) -> None:
        x, bounds = integers(9, 6, 4), np.array([1, 4, 4, 9], "int32")
        for along in (1, -1):
            pieces = divided(shards, x, (2, 0, x.shape[along] - 2), along)
            got = sharded.apply(SUM.segments, pieces, bounds, along=along)
            np.testing.assert_array_equal(
                whole(shards, got, along), reference.sums(x, bounds.tolist())
            )

    def test_sparse_matrix_times_vector(self, shards: Shards) -> None:
        drawn = np.random.default_rng(4)
        value, column = integers(200, dtype="float64"), drawn.integers(0, 30, 200).astype("int32")
        x, bounds = integers(30, dtype="float64", seed=1), reference.bounds(200, "short")
        extents = (70, 0, 130)
        pieces = [divided(shards, one, extents) for one in (value, column)]
        got = sharded.apply(CSR.segments, *pieces, copies(shards, x, 3), bounds)
        wanted = reference.sums(value * x[column], bounds.tolist())
        np.testing.assert_array_equal(whole(shards, got), wanted)

    def test_bounds_of_any_library(self, shards: Shards) -> None:
        x, bounds = integers(9), np.array([0, 5, 9])
        given = shards.array(bounds, shards.ordinals[0])
        got = sharded.apply(SUM.segments, divided(shards, x, (2, 7)), given)
        np.testing.assert_array_equal(whole(shards, got), [x[:5].sum(), x[5:].sum()])


class TestByKey:
    @pytest.mark.parametrize("name", ["sum", "mean", "matrices", "hash", "two", "welford"])
    def test_models(self, shards: Shards, name: str) -> None:
        """Counts, structs, operators that do not commute, several outputs."""
        model = MODELS[name]
        inputs, keys = model.draw(13, 4, seed=1), keys_of(13, 6)
        for extents in EXTENTS:
            pieces = [divided(shards, one, extents) for one in inputs]
            got = sharded.apply(model.kernel.by_key, *pieces, divided(shards, keys, extents), 6)
            outputs = got if isinstance(got, tuple) else (got,)
            found = tuple(map(shards.numpy, outputs))
            model.check(found, model.by_key(inputs, keys, 6), f"{extents}")

    def test_any_order(self, shards: Shards) -> None:
        for name in ("sum", "mean", "welford"):
            model = MODELS[name]
            inputs, keys = model.draw(700, seed=2), keys_of(700, 9)
            pieces = [divided(shards, one, (300, 0, 400)) for one in inputs]
            got = sharded.apply(model.kernel.by_key, *pieces, keys, n=9, deterministic=False)
            outputs = got if isinstance(got, tuple) else (got,)
            found = tuple(map(shards.numpy, outputs))
            model.check(found, model.by_key(inputs, keys, 9))

    def test_keys_are_a_list_or_one_array(self, shards: Shards) -> None:
        x, keys, extents = integers(13, 3), keys_of(13, 5), (6, 0, 7)
        wanted = sums_by_key(x, keys, 5)
        pieces = divided(shards, x, extents)
        for given in (divided(shards, keys, extents), keys, shards.array(keys, shards.ordinals[0])):
            got = sharded.apply(SUM.by_key, pieces, given, 5)
            np.testing.assert_array_equal(shards.numpy(got), wanted)
            assert shards.ordinal(got) == shards.ordinal(pieces[0])
            assert type(got) is type(pieces[0])

    def test_another_axis_is_divided(self, shards: Shards) -> None:
        x, keys = integers(13, 6), keys_of(13, 5)
        for given in (keys, copies(shards, keys, 2)):
            pieces = divided(shards, x, (4, 2), along=1)
            got = sharded.apply(SUM.by_key, pieces, given, n=5, along=1)
            np.testing.assert_array_equal(whole(shards, got, 1), sums_by_key(x, keys, 5))

    def test_the_identity(self, shards: Shards) -> None:
        """It is folded in once, and the value of keys that no shard has."""
        x, keys = np.ones(20), np.arange(20) // 10 * 3
        got = sharded.apply(PLUS_TEN.by_key, divided(shards, x, (5, 5, 10)), keys, n=5)
        assert shards.numpy(got).tolist() == [20, 10, 10, 20, 10]
        got = sharded.apply(PLUS_TEN.by_key, divided(shards, x[:0], (0, 0)), keys[:0], n=3)
        assert shards.numpy(got).tolist() == [10, 10, 10]
        got = sharded.apply(PLUS_TEN.by_key, divided(shards, x, (5, 15)), keys, n=0)
        assert shards.numpy(got).shape == (0,)

    def test_copies_scalars_and_strides(self, shards: Shards) -> None:
        x, w, keys = integers(13, 8), integers(8, seed=1), keys_of(13, 5)
        pieces = [one[:, ::2] for one in divided(shards, x, (3, 6, 4))]
        weights = [one[::2] for one in copies(shards, w, 3)]
        got = sharded.apply(WEIGHTED.by_key, pieces, weights, keys, 5)
        wanted = sums_by_key((x * w)[:, ::2], keys, 5)
        np.testing.assert_array_equal(shards.numpy(got), wanted)
        got = sharded.apply(SCALED.by_key, divided(shards, x, (3, 6, 4)), 3, keys, 5)
        np.testing.assert_array_equal(shards.numpy(got), 3 * sums_by_key(x, keys, 5))

    def test_bad_keys(self, shards: Shards) -> None:
        pieces = divided(shards, integers(13), (6, 7))
        for keys, message in (
            ([np.zeros(6, int)], "keys has 1, and the inputs have 2"),
            (np.zeros(12, int), "an element for each of the 13 rows of the first axis, not shape"),
            (np.zeros((13, 1), int), "keys must have one axis, with an element for each"),
        ):
            with pytest.raises(ShapeError, match=message):
                sharded.apply(SUM.by_key, pieces, keys, 4)
        with pytest.raises(ShapeError, match="keys must have one axis") as caught:
            sharded.apply(SUM.by_key, pieces, divided(shards, np.zeros(13, int), (7, 6)), 4)
        assert caught.value.__notes__ == ["in shard 0"]
        with pytest.raises(ArgumentTypeError, match="keys must hold integers, not float64"):
            sharded.apply(SUM.by_key, pieces, np.zeros(13), 4)
        with pytest.raises(ArgumentTypeError, match=r"form_sum\.by_key\(\) needs n"):
            sharded.apply(SUM.by_key, pieces, np.zeros(13, int))
        with pytest.raises(ArgumentTypeError, match="multiple values for argument 'n'"):
            sharded.apply(SUM.by_key, pieces, np.zeros(13, int), 3, n=4)
        with pytest.raises(ArgumentTypeError, match="deterministic must be True or False, not 1"):
            sharded.apply(SUM.by_key, pieces, np.zeros(13, int), 3, deterministic=1)

    def test_accumulators_have_room_for_their_number(self, shards: Shards) -> None:
        model = MODELS["wide"]
        pieces = [divided(shards, one, (6, 7)) for one in model.draw(13)]
        message = "accumulators of 192 bytes have no room for the number of their elements"
        with pytest.raises(NotSupportedError, match=message):
            sharded.apply(model.kernel.by_key, *pieces, keys_of(13, 4), 4)


class TestWindow:
    @pytest.mark.parametrize("boundary", BOUNDARIES)
    @pytest.mark.parametrize("step", [1, 3])
    def test_equals_the_whole(self, shards: Shards, boundary: str, step: int) -> None:
        x = np.random.default_rng(5).normal(size=(23, 6))
        for size, extents in ((5, (6, 4, 8, 5)), (4, (11, 12)), (1, (3, 0, 20)), (2, (2, 20, 1))):
            keywords = {"size": size, "axis": 0, "boundary": boundary, "step": step}
            got = sharded.apply(SUM.window, divided(shards, x, extents), **keywords)
            wanted = SUM.window(x, **keywords)
            result = whole(shards, got)
            assert result.shape == wanted.shape
            exact = "cuda" not in repr(shards.ordinals) and shards.ordinals[0] is None
            if exact:
                assert result.tobytes() == wanted.tobytes()
            else:
                np.testing.assert_allclose(result, wanted, rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("name", ["mean", "matrices", "two"])
    def test_models(self, shards: Shards, name: str) -> None:
        model = MODELS[name]
        inputs = model.draw(5, 17, seed=3)
        for boundary in ("valid", "shrink"):
            pieces = [divided(shards, one, (6, 7, 4), 1) for one in inputs]
            got = sharded.apply(model.kernel.window, *pieces, 4, along=-1, boundary=boundary)
            wanted = model.kernel.window(*inputs, 4, boundary=boundary)
            model.check(whole(shards, got, 1), wanted if isinstance(wanted, tuple) else (wanted,))

    def test_pooling_and_other_axes(self, shards: Shards) -> None:
        x = integers(12, 10)
        for size, axis, step in (((3, 2), (0, 1), (2, 2)), (3, 1, 1), ((2, 5), (1, 0), 5)):
            keywords = {"axis": axis, "step": step}
            got = sharded.apply(
                MAX.window, divided(shards, x.astype("i4"), (5, 7)), size, **keywords
            )
            wanted = MAX.window(x.astype("i4"), size, **keywords)
            np.testing.assert_array_equal(whole(shards, got), wanted)

    def test_copies(self, shards: Shards) -> None:
        x, w, h = integers(11, 5), integers(5, seed=1), integers(11, 1, seed=2)
        got = sharded.apply(
            WEIGHTED.window, divided(shards, x, (4, 7)), copies(shards, w, 2), size=3, axis=0
        )
        np.testing.assert_array_equal(whole(shards, got), WEIGHTED.window(x, w, 3, axis=0))
        got = sharded.apply(
            WEIGHTED.window, divided(shards, x, (4, 7)), divided(shards, h, (4, 7)), 3, axis=0
        )
        np.testing.assert_array_equal(whole(shards, got), WEIGHTED.window(x, h, 3, axis=0))


def test_generated_functions() -> None:
    x = integers(9, 4, dtype="float64")
    pieces = [x[:2], x[2:]]
    got = sharded.apply(statistics.total.scan, pieces, axis=0)
    np.testing.assert_array_equal(np.concatenate(got), np.cumsum(x, 0))
    got = sharded.apply(statistics.total.segments, pieces, np.array([0, 5, 9]))
    np.testing.assert_array_equal(np.concatenate(got), [x[:5].sum(0), x[5:].sum(0)])
    got = sharded.apply(statistics.mean.window, pieces, size=3, axis=0, boundary="shrink")
    wanted = statistics.mean.window(x, 3, axis=0, boundary="shrink")
    np.testing.assert_array_equal(np.concatenate(got), wanted)


def test_other_libraries() -> None:
    x = integers(9, 4)
    got = sharded.apply(SUM.scan, [Exporter(x[:4].copy()), Exporter(x[4:].copy())], axis=0)
    np.testing.assert_array_equal(np.concatenate(list(map(kspec.asnumpy, got))), np.cumsum(x, 0))
    jax = pytest.importorskip("jax")
    y = x.astype("float32")
    pieces = [jax.numpy.asarray(y[:4]), jax.numpy.asarray(y[4:])]
    for form, given, wanted in (
        (SUM.scan, {"axis": 0}, np.cumsum(y, 0)),
        (SUM.segments, {"indptr": np.array([0, 6, 9])}, np.add.reduceat(y, [0, 6])),
        (SUM.window, {"size": 2, "axis": 0}, y[1:] + y[:-1]),
    ):
        got = sharded.apply(form, pieces, **given)
        assert all(isinstance(one, jax.Array) for one in got)
        np.testing.assert_array_equal(np.concatenate(got), wanted)


X = [integers(4, 3), integers(5, 3)]
BOUNDS = np.array([0, 3, 9])


@pytest.mark.parametrize(
    ("form", "args", "keywords", "error", "message"),
    [
        (SUM.scan, (X,), {"axis": 2}, np.exceptions.AxisError, "axis 2"),
        (SUM.scan, (X,), {"along": 2}, np.exceptions.AxisError, "axis 2"),
        (SUM.scan, (X,), {"axis": (0, 1)}, TypeError, "axis must be an integer, not"),
        (SUM.scan, (X, X), {}, TypeError, "form_sum takes 1 input"),
        (SUM.scan, (X[0],), {}, TypeError, "x is one array, which lives on one device"),
        (
            SUM.scan,
            (X,),
            {"keepdims": True},
            TypeError,
            r"scan\(\) got an unexpected .* 'keepdims'",
        ),
        (SUM.scan, (X,), {"size": 3}, TypeError, r"form_sum.scan\(\) got an unexpected .* 'size'"),
        (SUM.scan, (X,), {"boundary": "wrap"}, TypeError, "unexpected keyword argument 'boundary'"),
        (
            SUM.scan,
            ([X[0], X[1][:, :2]],),
            {},
            ValueError,
            r"shard 1 has shape \(5, 2\), and shard 0",
        ),
        (
            SUM.scan,
            ([X[0], X[1].astype("f4")],),
            {},
            TypeError,
            "x is float32 in shard 1, and int64",
        ),
        (NO_IDENTITY.scan, (X,), {"exclusive": True}, ValueError, "begins with the identity"),
        (PLACE.scan, (X,), {}, NotImplementedError, "form_place cannot be applied shard by shard"),
        (OF_SEGMENT.segments, (X, [BOUNDS] * 2, BOUNDS), {}, NotImplementedError, "shard by shard"),
        (SUM.segments, (X,), {}, TypeError, r"form_sum.segments\(\) needs indptr"),
        (
            SUM.segments,
            (X, BOUNDS),
            {"indptr": BOUNDS},
            TypeError,
            "multiple values for .* 'indptr'",
        ),
        (
            SUM.segments,
            (X, [BOUNDS, BOUNDS]),
            {},
            TypeError,
            "indptr must be one array, .* not list",
        ),
        (SUM.segments, (X, BOUNDS * 1.0), {}, TypeError, "indptr must hold integers, not float64"),
        (SUM.segments, (X, BOUNDS[None]), {}, ValueError, "indptr must have one axis"),
        (
            SUM.segments,
            (X, BOUNDS[::-1]),
            {},
            ValueError,
            "segment 0 goes from 9 to 3: indptr must",
        ),
        (
            SUM.segments,
            (X, BOUNDS + 1),
            {},
            ValueError,
            "segment 1 goes from 4 to 10: .*from 0 to 9",
        ),
        (
            SUM.segments,
            ([X[0], X[0]], BOUNDS - 1),
            {"along": 1},
            ValueError,
            "goes from -1 to 2: .*from 0 to 4",
        ),
        (NO_IDENTITY.segments, (X, BOUNDS), {}, ValueError, "an empty segment is the identity"),
        (SUM.window, (X,), {}, TypeError, r"form_sum.window\(\) needs size"),
        (SUM.window, (X, 10), {"axis": 0}, ValueError, "a window of 10 does not fit axis 0"),
        (
            SUM.window,
            (X, 3),
            {"boundary": "open"},
            TypeError,
            "boundary is 'open'; expected one of",
        ),
        (
            SUM.window,
            ([X[0], X[1][:1], X[1]], 5),
            {"axis": 0, "boundary": "nearest"},
            ValueError,
            "form_sum: x: shard 1 along axis 0 has 1 element, .* need 2; divide the array among fewer",
        ),
        (TWO.bind, (X,), {}, TypeError, "expected an elementwise or reduction kernel"),
    ],
)
def test_refused(form: Any, args: Any, keywords: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        sharded.apply(form, *args, **keywords)
    assert error is np.exceptions.AxisError or isinstance(caught.value, kspec.KspecError)


def test_errors_say_which_shard() -> None:
    with pytest.raises(kspec.ShapeError, match="broadcast") as caught:
        sharded.apply(WEIGHTED.scan, X, [X[0], X[1][:2]], axis=0)
    assert caught.value.__notes__ == ["in shard 1"]
