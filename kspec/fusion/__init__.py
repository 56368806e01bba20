"""Array code in, the fewest kernels that compute it out, as specs.

::

    tracer, traced      a Python function called with proxies for its arrays
    functions           what NumPy's and CuPy's functions are for these
    methods, indices    what operators are, and what it writes in brackets
    refusals            what it may not do
    graph               what it computes: values, their types and shapes, each once
    steps               what views of them choose
    numbers             numbers that a call returns, computed in Python from other numbers
    partition           which values are computed together, and why not more of them
    lower, rows         each of these as a spec

Nothing here touches an array or a device: `kspec.fusion.call` calls the kernels.
"""
