"""Kernels for `kspec.review`, and what Nsight Compute counts for them on a GPU.

``cases`` lists the kernels: ``copies``, ``transposes``, ``shared``, ``divergent`` and ``patterns``
are CUDA texts, ``shipped`` are calls of generated functions and constructors.  ``measure`` is the
program for a machine with a GPU: it profiles and times every case, ``profile`` reads the
profiler's report, and ``measured_h200.json`` holds the figures, so that a review can be compared
with them anywhere.
"""
