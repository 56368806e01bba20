// size_t and ptrdiff_t are predefined.
#pragma once

#include <kspec_macros.h>
