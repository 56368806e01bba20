"""The other forms of reduction kernels: what reduces along axes also scans."""
