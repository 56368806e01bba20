"""The typed text between array programs or Python functions and CUDA C++.

::

    nodes      what there is: expressions of one element, and statements
    builtins   the functions that may be called, NumPy's ufuncs among them
    check      whether every value has the type that is needed where it is used
    emit       CUDA C++
"""
