"""Array code in, the fewest kernels that compute it out, as specs.

::

    tracing             a Python function called with proxies of its arrays: tracer, proxies,
                        their methods and indices
    functions           NumPy's and CuPy's functions on proxies
    refusals            errors about code that cannot be fused
    graph, view_ops     nodes, each computed once, with types and shapes; views of them
    numbers             numbers that a call returns, computed in Python from other numbers
    partition           groups of nodes that one kernel computes
    lower, rows         groups to specs

Nothing here touches an array or a device: `kspec.fusion.call` calls the kernels.
"""
