#pragma once

#include "kspec/cucomplex.cuh"
