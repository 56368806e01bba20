"""Neighbours of elements: windows, samples between elements, and halos of divided arrays."""
