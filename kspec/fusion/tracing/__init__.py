"""A traced function: the proxies that it computes with, and the tracer that records it."""
