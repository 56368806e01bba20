"""Specs in, NumPy-style docstrings out, as lines that are safe between triple quotes.

What a caller needs: what the kernel computes, what each argument may be, what comes back, what
is raised, which dtypes are precompiled, and where in the project all of this is declared.
`kspec.build.package.api` has the signatures.

::

    modules      packages, modules, dtypes
    functions    elementwise functions, reductions and their forms
    raw          functions that launch raw kernels
    operators    functions that call PyTorch operators
    lines        what they have in common
"""
