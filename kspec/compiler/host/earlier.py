"""A rewritten text in, the code that an earlier compile made of it out.

The key of a source holds a digest of everything that rewrites sources: an edit of any of it, a
comment too, changes all keys.  Most texts stay what they were, and are found here by their own key.
`kspec.compiler.host.compile` asks before it compiles.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from kspec.compiler.cache import ImageCache
from kspec.dataclass import dataclass
from kspec.model.stages import Image


def text_key(parts: Iterable[str]) -> str:
    """Return the key of a text, its flags and its compiler."""
    content = "\0".join(parts)
    return hashlib.sha256(content.encode("utf-8", "surrogateescape")).hexdigest()


@dataclass(frozen=True)
class Earlier:
    """The images of a cache by the keys of their rewritten texts.

    Under such a key the cache has the key of the source, whose entry has the image.

    Attributes
    ----------
    cache : ImageCache
        Where images are kept.
    key : str
        The key of the source that is compiled now.
    """

    cache: ImageCache
    key: str

    def find(self, key: str) -> bytes | None:
        """Return the code that was made of a text, or None."""
        entry = self.cache.probe(key)
        image = self.cache.probe(entry.code.decode()) if entry else None
        return image.code if image else None

    def note(self, key: str) -> None:
        """Remember that the source of now has the text with this key."""
        self.cache.put(key, Image("key", "host", self.key.encode(), {}))
