#pragma once

#include "kspec/constants.cuh"
