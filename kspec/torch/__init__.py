"""Kernels as PyTorch operators: for `torch.compile`, `torch.export`, autograd and autocast.

>>> import kspec.torch                                                 # doctest: +SKIP
>>> from kspec_kernels import norms                                    # doctest: +SKIP
>>> kspec.torch.register(norms)                                        # doctest: +SKIP
>>> torch.ops.kspec_kernels.l2norm(x, axis=1)                          # doctest: +SKIP

Importing this imports torch; `kspec` itself never does.  `kspec.model.operators` has the
signatures, `registration` puts the parts of an operator together: `execution` runs the kernel,
`fake` says what would come out, `autograd` and `autocast` do what their names say (`adjoints`: for
scans, segments, keys and windows), `derivatives` is what torch's autograd finds of an operator.
"""

from kspec.torch.registration import register

__all__ = ["register"]
