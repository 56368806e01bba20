"""Annotations of a generated function's arrays: parameters in, types for type checkers out.

::

    def l2norm(x: ArrayT, ...) -> ArrayT              # float32 in, float32 out, of any library

    @overload                                         # the result has a dtype of its own
    def argmax(x: NDArray[Any], ...) -> NDArray[np.int64]: ...
    @overload
    def argmax(x: ArrayT, ...) -> ArrayT: ...

One type variable says "the same kind of array, of the same dtype", which is right as long as all
arrays of a kernel are declared alike.  Only NumPy's arrays tell type checkers their dtype, so where
dtypes differ there is a signature for them, and one for the arrays of all other libraries.
`kspec.build.package.api` writes the functions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from kspec.dataclass import dataclass
from kspec.model import dtypes
from kspec.model.signature import Param

_NUMPY_NAMES = {"bool": "bool_"}  # where NumPy's scalar type is not called as its dtype
_OUTSIDE = ("bfloat16", "float8")  # of ml_dtypes, which type checkers know nothing of
VARIABLES = tuple(f"DType{number}" for number in range(8))


@dataclass(frozen=True)
class ArrayTypes:
    """Names of array types in a signature: by declared type, or all alike."""

    by_type: tuple[tuple[str, str], ...] = ()
    others: str = "ArrayT"

    def of(self, param: Param) -> str:
        """Return the annotation of one array."""
        return dict(self.by_type).get(param.type, self.others)

    def result(self, outputs: Sequence[Param], nothing: bool, always_tuple: bool) -> str:
        """Return the annotation of the result of a call."""
        if nothing or not outputs:
            return "None"
        if len(outputs) == 1 and not always_tuple:
            return self.of(outputs[0])
        return f"tuple[{', '.join(self.of(param) for param in outputs)}]"


SAME = ArrayTypes()
ANY = ArrayTypes(others="AnyArray")


def signatures(inputs: Iterable[Param], outputs: Iterable[Param]) -> tuple[ArrayTypes, ...]:
    """Return the ways to annotate a function with these arrays: one, or NumPy's and all others'."""
    given, made = list(inputs), list(outputs)
    declared = {param.type: param for param in (*given, *made)}
    if len(declared) < 2:
        return (SAME,)
    # An output is a parameter and the result; what occurs once relates to nothing.
    times = Counter(param.type for param in (*given, *made, *made))
    related = [name for name, param in declared.items() if param.is_placeholder and times[name] > 1]
    variables = dict(zip(related, VARIABLES, strict=False))
    numpy = tuple((name, f"NDArray[{variables.get(name) or _scalar(name)}]") for name in declared)
    return ArrayTypes(numpy), SAME


def _scalar(name: str) -> str:
    """Return NumPy's scalar type of a dtype.

    >>> _scalar("float32"), _scalar("bool"), _scalar("bfloat16")
    ('np.float32', 'np.bool_', 'Any')
    """
    if not dtypes.is_known(name) or name.startswith((*_OUTSIDE, "{", "V")):
        return "Any"
    return f"np.{_NUMPY_NAMES.get(name, name)}"
