"""`backward` tables: their rules, and the kernels that compute gradients."""
