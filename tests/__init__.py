"""The tests of kspec.

pytest rewrites the assertions of plugins, and kspec is one: 470 modules that have none to show.
"""

import sys

for finder in sys.meta_path:
    getattr(finder, "_must_rewrite", set()).discard("kspec")
