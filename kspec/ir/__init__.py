"""The typed text between array programs or Python functions and CUDA C++.

::

    types      arrays, memory of blocks and threads, objects
    nodes      expressions, elements of memory among them, and statements
    control    statements of whole kernels: variables that change, branches, loops, functions
    builtins   the functions that may be called, NumPy's ufuncs among them
    device     those that CUDA has and NumPy has not
    check      whether every value has the type that is needed where it is used
    emit       CUDA C++; emit_kernel too
"""
