"""Calling kernels: arguments in, launches out.  Needs NumPy and cuda-bindings, nothing else.

Read `elementwise`, `reduction` and `raw` for the three ways a call is prepared; `layout` and
`dispatch` for how shapes and dtypes choose a specialization; `marshal`, `module` and `launch`
for what reaches the device.
"""
