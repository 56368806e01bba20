"""Measurements of kspec beside other libraries; ``python -m benchmarks`` runs them."""
