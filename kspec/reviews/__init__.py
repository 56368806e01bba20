"""Use of memory by kernels, found on the host device: recordings in, `Review` objects out.

::

    recording    rt/review.h counts; kspec.host.recording reads it       positions in an image
    lines        positions -> lines of the source, one for each access   AccessedLine, Branch
    code         basic blocks and the machine code of a GPU -> weights   Executed
    launches     grid, block, compiler's figures -> occupancy, waves     Residency
    prediction   all of it -> a time, and what bounds it                 Prediction
    review       the whole, as data, table and page                      Review
    summary      a launch -> sentences: its limit, and what to change
    call         a function or a kernel -> its review                    review, reviewing

The counts are what the threads of the host device did, grouped into warps as a GPU groups them.
Time is estimated: `kspec.reviews.prediction` says how.
"""
