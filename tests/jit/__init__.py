"""CuPy's behaviour contract, row by row, on every device; `kspec` differs where Annex C says so."""
