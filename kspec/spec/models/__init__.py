"""Specs: declared kernels as frozen Pydantic models, checked when they are made.

>>> spec = ElementwiseSpec(name="sq", inputs="T x", outputs="T y", operation="y = x * x",
...                        types={"T": ["f4", "f8"]})
>>> spec.bindings()
((('T', 'float32'),), (('T', 'float64'),))

In go the tables of a spec file or the arguments of the Python constructors, out comes a spec
that the renderer can trust.  `kspec.spec.building` makes a `SpecError` of a user's mistakes,
`kspec.spec.loader` reads files of specs, `kspec.render` turns them into source.
"""

from kspec.spec.models.elementwise import ElementwiseSpec
from kspec.spec.models.raw import RawSpec
from kspec.spec.models.reduction import ReductionSpec

__all__ = ["MODELS", "ElementwiseSpec", "RawSpec", "ReductionSpec", "Spec"]

Spec = ElementwiseSpec | ReductionSpec | RawSpec
MODELS: dict[str, type[Spec]] = {
    "elementwise": ElementwiseSpec,
    "reduction": ReductionSpec,
    "raw": RawSpec,
}
