// Reductions whose parameters have core dimensions.
#pragma once

#include "kspec/chunked.cuh"
#include "kspec/core.cuh"
#include "kspec/reduce.cuh"
#ifndef KSPEC_CHUNKED
#include "kspec/sweep.cuh"
#endif
