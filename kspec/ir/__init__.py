"""The typed text between array programs or Python functions and CUDA C++.

::

    types      arrays, memory of blocks and threads, objects
    nodes      what there is: expressions of one element, and statements
    memory     elements, parts and fields
    control    what only whole kernels have: variables that change, branches, loops, functions
    builtins   the functions that may be called, NumPy's ufuncs among them
    device     those that CUDA has and NumPy has not
    check      whether every value has the type that is needed where it is used; check_kernel too
    emit       CUDA C++; emit_memory, emit_kernel too
"""
