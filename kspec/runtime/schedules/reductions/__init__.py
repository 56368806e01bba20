"""Reductions: who reads which elements, and how threads and blocks share them."""
