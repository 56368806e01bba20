"""Memory on devices: kspec's own arrays, their pool, and views of any array."""
