"""Measurements of kspec beside other libraries; ``python -m benchmarks`` runs them.

``kernels`` (CUDA texts and what they should compute) and ``operands`` (shapes and views) make
``cases``; ``throughput``, ``overhead``, ``coldstart`` and ``host_device`` measure on one of
``machines``; ``results`` keeps what they found, ``report`` and ``plots`` show it.
"""
