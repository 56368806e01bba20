// Everything in it that device code uses is predefined (kspec_host.h).
