"""Shapes and strides in, layouts, launch geometry and packed parameters out; no device."""
