"""Random programs, shapes and layouts against NumPy: shape, dtype and value.

On the host few programs are drawn, each with many shapes, since each is compiled by g++; on GPUs
as many programs as there are examples.
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from kspec import fuse
from tests.devices import DEVICES, ArrayDevice, ready
from tests.fusion.programs import Array, Program, make_program, values
from tests.profiles import examples

HOST, _, CUPY, OWN_CUDA = DEVICES
PROGRAMS_ON_HOST = 60
EXAMPLES = 2000
PARTS = 20  # on a GPU, where most examples are compiled, for as many processes
drawn = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],
)


@functools.cache
def program_of(seed: int) -> tuple[Program, Any, Any]:
    """Return a program, and its function as it is and fused."""
    program = make_program(seed)
    function = program.function()
    return program, function, fuse(device="host")(function)


def laid_out(array: Array, layout: str, device: ArrayDevice) -> Any:
    """Return an array on a device whose elements are not in C order."""
    if layout == "transposed":
        return device.array(array.T).T
    if layout in ("stepped", "shifted") and array.ndim:
        step = 2 if layout == "stepped" else 1
        long = np.zeros((*array.shape[:-1], array.shape[-1] * step + 1), array.dtype)
        long[..., 1::step][..., : array.shape[-1]] = array
        return device.array(long)[..., 1::step][..., : array.shape[-1]]
    if layout == "reversed" and array.ndim:
        return device.array(array[::-1])[::-1]
    return device.array(array)


def epsilon(arrays: list[Array]) -> float:
    """Return the distance from 1 to the next number of the coarsest type."""
    kinds = [one.dtype for one in arrays if one.dtype.kind in "fcV" or one.dtype.name == "bfloat16"]
    return max((float(ml_dtypes.finfo(kind).eps) for kind in kinds), default=2e-16)


def compare(got: Any, wanted: Any, bound: float, device: ArrayDevice) -> None:
    """Compare one result."""
    wanted = np.asarray(wanted)
    found = device.numpy(got)
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    if wanted.dtype.kind in "biu":
        np.testing.assert_array_equal(found, wanted)
    else:
        wide = "c16" if wanted.dtype.kind == "c" else "f8"
        np.testing.assert_allclose(found.astype(wide), wanted.astype(wide), rtol=0, atol=bound)


def check(data: st.DataObject, seed: int, device: ArrayDevice, most: int) -> None:
    """Run a program with drawn arrays."""
    program, function, fused = program_of(seed)
    extents = data.draw(st.tuples(*[st.sampled_from((2, 3, 1, 5, 0, 8, 33, 130))] * program.ndim))
    assume(np.prod(extents, dtype=int) <= most)
    layouts = st.sampled_from(("C", "transposed", "stepped", "shifted", "reversed"))
    start = data.draw(st.integers(0, 999))
    arrays = [
        values(leaf.dtype, leaf.shape(extents), start + k) for k, leaf in enumerate(program.leaves)
    ]
    given = [laid_out(one, data.draw(layouts), device) for one in arrays]
    rows = data.draw(st.sampled_from(("never", "always")))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            wanted = function(*arrays)
        except (ValueError, IndexError) as error:
            with pytest.raises(type(error)):
                fused(*given)
            return
        size = program.size(arrays)
    several = wanted if isinstance(wanted, tuple) else (wanted,)
    eps = epsilon([*arrays, *[np.asarray(one) for one in several]])
    assume(size < (1e3 if eps > 1e-4 else 1e12))
    old = os.environ.get("KSPEC_FUSE_ROWS")
    os.environ["KSPEC_FUSE_ROWS"] = rows
    try:
        got = fused(*given)
    finally:
        if old is None:
            del os.environ["KSPEC_FUSE_ROWS"]
        else:
            os.environ["KSPEC_FUSE_ROWS"] = old
    assert isinstance(got, tuple) == isinstance(wanted, tuple)
    bound = 16 * eps * size * (1 + program.text.count("\n"))
    for one, other in zip(got if isinstance(got, tuple) else (got,), several, strict=True):
        compare(one, other, bound, device)


def parts() -> Iterator[Any]:
    """Return the devices, those on a GPU once for each part."""
    for place in (HOST, CUPY, OWN_CUDA):
        (one,) = place.values
        for part in range(1 if one.is_host else PARTS):
            yield pytest.param(one, part, marks=place.marks, id=f"{place.id}-{part}")


@pytest.mark.parametrize(("place", "part"), list(parts()))
def test_programs(place: ArrayDevice, part: int) -> None:
    device = ready(place)

    @settings(drawn, max_examples=max(1, examples(EXAMPLES) // (1 if place.is_host else PARTS)))
    @given(data=st.data())
    def draw(data: st.DataObject) -> None:
        most = PROGRAMS_ON_HOST - 1 if device.is_host else 10**6
        seed = most * part + data.draw(st.integers(0, most))
        if device.library == "cupy":  # which has no bfloat16
            assume(all(leaf.dtype != "bfloat16" for leaf in program_of(seed)[0].leaves))
        check(data, seed, device, 600 if device.is_host else 20_000)

    draw()
