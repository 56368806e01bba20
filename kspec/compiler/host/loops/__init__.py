"""Kernels as loops over the threads of a block, where all accesses are known to be legal.

A C++ compiler turns such a loop into vector instructions, which it cannot do to a function that is
called for each thread and checks every access.  `loops.parse` reads the kernels of which that can
be made, `loops.ranges` writes the test of a run of blocks, `loops.code` the loops.
"""
