"""Author time: the specs of a project in, its generated Python package out.

::

    settings -> plan -> images (worker) -> files (api, docs) -> atomic_replace

`kspec.build.project` runs that line; the command line is `kspec.build.cli`, the build hook of
hatchling `kspec.build.hook`.  Nothing is imported here, so that workers start fast.
"""
