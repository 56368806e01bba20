"""Every shipped kernel with arrays of every library: one result, of the caller's kind."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import kspec_kernels
import numpy as np
import pytest

import kspec
from kspec.build.project import plan_project
from kspec.build.properties import examples
from kspec.build.properties.examples import ExampleCall
from kspec.build.properties.runner import Subject, subjects
from kspec.spec.models import RawSpec
from tests.libraries import FIRST, LIBRARIES, Library
from tests.projects import ROOT

pytestmark = pytest.mark.filterwarnings("ignore")  # what other libraries warn of is theirs

every_library = pytest.mark.parametrize("library", LIBRARIES)


@functools.cache
def shipped() -> dict[str, Subject]:
    found = subjects(plan_project(ROOT), kspec_kernels)
    return {one.name: one for one in found if examples.has_example(one.spec)}


NAMES = [spec.name for spec in plan_project(ROOT).specs if examples.has_example(spec)]


def kernel_of(name: str) -> Subject:
    """Return a kernel by the name of its spec."""
    return next(one for one in shipped().values() if one.spec.name == name)


@pytest.fixture(autouse=True)
def _wide_jax() -> Iterator[None]:
    """JAX has 64 bits, as all other libraries."""
    try:
        import jax
    except ImportError:
        yield
        return
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def run(call: ExampleCall, function: Callable[..., Any], library: Library) -> tuple[Any, ...]:
    """Return the results of a call with arrays of a library; skip dtypes that it does not have."""
    arrays = [value for value in call.values.values() if isinstance(value, np.ndarray)]
    missing = [one.dtype for one in arrays if not library.has(one.dtype)]
    if missing:
        pytest.skip(f"{library.name} has no {missing[0]}")
    written = {id(call.values[name]) for name in written_to(call)}
    return examples.bind_call(
        call, function, lambda x: (library.output if id(x) in written else library.array)(x)
    )()


def written_to(call: ExampleCall) -> set[str]:
    """Return the arguments of an example that the kernel writes to."""
    if isinstance(call.spec, RawSpec):
        params = call.spec.params or ()
        names = {param.name for param in params if param.pointer and not param.const}
    else:
        names = {param.name for param in call.spec.outputs}
        names |= {param.name for param in call.spec.inputs if param.non_const}
    return names & set(call.values)


@functools.cache
def reference_bits(name: str, place: str) -> tuple[bytes, ...]:
    """Return the bytes of the results with the arrays of the first library of a place."""
    subject = kernel_of(name)
    library = FIRST[place]
    results = run(examples.make_call(subject.spec), subject.function, library)
    return tuple(library.numpy(one).tobytes() for one in results)


@every_library
@pytest.mark.parametrize("name", NAMES)
def test_shipped_kernels(name: str, library: Library) -> None:
    library.ready()
    subject = kernel_of(name)
    call = examples.make_call(subject.spec)
    results = run(call, subject.function, library)
    if not written_to(call):
        assert all(isinstance(one, library.result) for one in results)
    got = tuple(map(library.numpy, results))
    want = examples.expected(call)
    assert examples.worst_error(got, want) <= examples.tolerance(call, got)
    assert tuple(one.tobytes() for one in got) == reference_bits(name, library.place)


@every_library
@pytest.mark.parametrize(
    "name", [one for one in NAMES if not isinstance(kernel_of(one).spec, RawSpec)]
)
def test_given_outputs(name: str, library: Library) -> None:
    """The outputs come from the caller, and are the same bits; JAX's cannot be given."""
    library.ready()
    subject = kernel_of(name)
    call = examples.make_call(subject.spec)
    if written_to(call):
        pytest.skip("its example gives the outputs")
    first = run(call, subject.function, library)
    fetched = [library.numpy(one) for one in first]
    given = {f"out{k}": np.zeros_like(one) for k, one in enumerate(fetched)}
    keywords = {key: value for key, value in call.keywords.items() if key != "size"}
    again = replace(
        call,
        values={**call.values, **given},
        order=(*call.order, *given),
        written=tuple(given),
        keywords=keywords,
    )
    if not library.writable:
        message = "is written to, but JAX's arrays are immutable; leave outputs out"
        with pytest.raises(kspec.ArgumentTypeError, match=message):
            run(again, subject.function, library)
        return
    for output, one in zip(run(again, subject.function, library), fetched, strict=True):
        assert library.numpy(output).tobytes() == one.tobytes()
