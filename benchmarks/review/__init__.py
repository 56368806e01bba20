"""Kernels for `kspec.review`, and what Nsight Compute counts for them on a GPU.

``cases`` lists the raw kernels, whose CUDA texts are in ``copies``, ``transposes``, ``shared``,
``divergent``, ``patterns`` and ``reductions``; ``shipped`` has calls of generated functions and
constructors.  ``measure`` is the program for a machine with a GPU: it profiles and times every
case.  ``profile`` reads the profiler's report.  The figures are in ``measured_h200.json``, so that
a review can be compared with them anywhere.
"""
