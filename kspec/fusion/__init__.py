"""Array code in, the fewest kernels that compute it out, as specs.

::

    tracer, functions   a Python function called with stand-ins for its arrays; what has no kernel
                        is refused (refusals), brackets are read by indices
    graph               what it computes: values, their types and shapes, each once
    partition           which values are computed together, and why not more of them
    lower, rows         each of these as a spec

Nothing here touches an array or a device: `kspec.fused` calls the kernels.
"""
