"""Forms of reductions: which there are, their arguments, layouts and outputs."""
