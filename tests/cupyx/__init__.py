"""Functions of `cupyx` on kspec's kernels, beside the same functions on CuPy's own.

`calls` is the table of calls, `swap` puts kspec's classes into CuPy's modules, `worker` evaluates calls in
a process of its own, `results` compares what they return.  ``python -m tests.cupyx`` runs it all.
"""
