// Reductions whose parameters have core dimensions.
#pragma once

#include "kspec/core.cuh"
#include "kspec/reduce.cuh"
#ifndef KSPEC_HOST
#include "kspec/sweep.cuh"
#endif
