"""Kernels as data: declarations, types, stages, manifests; frozen, standard library only."""
