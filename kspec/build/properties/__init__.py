"""``kspec test``: kernels against their references, on drawn arguments.

::

    strategies -> Case -> runner (the kernel, the reference) -> table, or text to paste

Hypothesis draws the arguments (`strategies`), a `Case` holds them, `runner` compares and shrinks.
`kspec.build.pytest_plugin` makes the same tests items of pytest.
"""
