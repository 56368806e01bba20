"""The arguments of a call with shards, and the results of all calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kspec.errors import ArgumentTypeError, NotSupportedError, ShapeError, counted
from kspec.model.declaration import GeneratedDeclaration
from kspec.runtime.kernels.identity import Kernel
from kspec.runtime.libraries.lookup import Library, library_of


def calls_of(kernel: Kernel, args: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return the arguments of each shard."""
    name, inputs = kernel.__name__, kernel.declaration.inputs.params
    reason = kernel.declaration.whole
    if reason:
        raise NotSupportedError(
            f"{name} cannot be applied shard by shard: {reason}. Call it with whole arrays, or "
            "let it take indices from an array: 'T x, int64 index'"
        )
    if len(args) != len(inputs):
        raise ArgumentTypeError(
            f"{name} takes {counted(len(inputs), 'input')} ({kernel.declaration.inputs}), "
            f"not {len(args)}; outputs are made"
        )
    kernel.declaration.check_made_outputs()
    lists: dict[str, int] = {}
    for param, value in zip(inputs, args, strict=True):
        if isinstance(value, list | tuple):
            lists[param.name] = len(value)
            other = next((one for one in value if library_of(one) is None), None)
            if other is not None:
                raise ArgumentTypeError(
                    f"{name}: {param.name} is a list with a {type(other).__name__}; lists have "
                    "shards, which are arrays, and a number is given as it is"
                )
        elif library_of(value) is not None:
            raise ArgumentTypeError(
                f"{name}: {param.name} is one array, which lives on one device; pass a list: its "
                "shards, or a copy for each device"
            )
    if not lists:
        raise ArgumentTypeError(f"{name}: no argument is a list of shards; call the kernel itself")
    if len(set(lists.values())) > 1 or 0 in lists.values():
        listed = ", ".join(f"{one} has {count}" for one, count in lists.items())
        raise ShapeError(f"{name}: lists must have the same number of shards: {listed}")
    count = next(iter(lists.values()))
    return [
        tuple(one[number] if isinstance(one, list | tuple) else one for one in args)
        for number in range(count)
    ]


def loop_ndim(declaration: GeneratedDeclaration, args: Sequence[Any]) -> int:
    """Return the number of axes that the arguments of a call broadcast to."""
    return max(
        (
            ndim_of(value) - len(param.core)
            for param, value in zip(declaration.inputs, args, strict=True)
            if not param.raw
        ),
        default=0,
    )


def check_cores(
    declaration: GeneratedDeclaration, calls: Sequence[tuple[Any, ...]], along: int
) -> None:
    """Raise `ShapeError` unless shards are divided along an axis of the loop.

    Parameters
    ----------
    declaration : ElementwiseDeclaration or ReductionDeclaration
        The kernel.
    calls : sequence of tuple
        The arguments of each shard.
    along : int
        The divided axis.
    """
    if not declaration.has_core:
        return
    name, params = declaration.name, declaration.inputs.params
    ndim = loop_ndim(declaration, calls[0])
    if not -ndim <= along < ndim:
        raise ShapeError(
            f"{name}: shards are divided along axis {along}, and the loop over items has "
            f"{counted(ndim, 'dimension')}; core dimensions cannot be divided"
        )
    for place, param in enumerate(params):
        if not param.core:
            continue
        shapes = [_shape_of(args[place]) for args in calls]
        whole = [shape[len(shape) - len(param.core) :] for shape in shapes]
        other = next((number for number, one in enumerate(whole) if one != whole[0]), 0)
        if other:
            raise ShapeError(
                f"{name}: {param.name} has core dimensions {whole[0]} in shard 0, and "
                f"{whole[other]} in shard {other}; divide the array along an axis of the loop"
            )


def on_each(
    call: Callable[..., Any],
    calls: Sequence[tuple[Any, ...]],
    numbers: Sequence[int] | None = None,
) -> list[Any]:
    """Return the result of each shard; errors name the shard.

    `numbers`: of the shards; default: in their order.
    """
    results = []
    for number, args in zip(numbers or range(len(calls)), calls, strict=True):
        try:
            results.append(call(*args))
        except Exception as error:
            error.add_note(f"in shard {number}")
            raise
    return results


def library_of_call(args: Sequence[Any]) -> Library | None:
    """Return whose arrays results are: those of the first argument that is an array."""
    return next(filter(None, map(library_of, args)), None)


def ndim_of(value: Any) -> int:
    """Return the number of axes of an argument; arrays known only by a protocol have no `ndim`."""
    return len(_shape_of(value))


def _shape_of(value: Any) -> tuple[int, ...]:
    library = library_of(value)
    if library is None:
        return ()
    shape = getattr(value, "shape", None)
    return tuple(library.view(value).shape if shape is None else shape)


def transposed(results: list[Any]) -> Any:
    """Return a tuple of lists instead of a list of tuples."""
    if isinstance(results[0], tuple):
        return tuple(map(list, zip(*results, strict=True)))
    return results
