"""Source to image: a `CudaSource` and a `Target` in, an `Image` out, through a cache.

::

    cache = ImageCache.configured()
    image = compile_source(CudaSource("a.cu", text, ("axpy<float>",)), Target("sm_90"), cache)

`kspec.render` makes sources, `kspec.runtime` loads images.  No GPU and no driver is needed.

A facade: a process that finds all its images through `kspec.compiler.memo` imports no compiler.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kspec.compiler.cache import ImageCache
    from kspec.compiler.compilation import (
        cached_image,
        compile_source,
        is_compiled,
        keep_image,
    )
    from kspec.compiler.key import image_key

_HOME_OF = {
    "ImageCache": "kspec.compiler.cache",
    "cached_image": "kspec.compiler.compilation",
    "compile_source": "kspec.compiler.compilation",
    "image_key": "kspec.compiler.key",
    "is_compiled": "kspec.compiler.compilation",
    "keep_image": "kspec.compiler.compilation",
}

__all__ = [
    "ImageCache",
    "cached_image",
    "compile_source",
    "image_key",
    "is_compiled",
    "keep_image",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'kspec.compiler' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)
