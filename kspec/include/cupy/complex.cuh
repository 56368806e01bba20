// For CuPy users' sources: CuPy's complex numbers are Thrust's, so their names work too.
#pragma once

#include "kspec/complex.cuh"

namespace thrust {

using ::complex;

using ::abs;
using ::acos;
using ::acosh;
using ::arg;
using ::asin;
using ::asinh;
using ::atan;
using ::atanh;
using ::conj;
using ::cos;
using ::cosh;
using ::exp;
using ::log;
using ::log10;
using ::norm;
using ::polar;
using ::pow;
using ::sin;
using ::sinh;
using ::sqrt;
using ::tan;
using ::tanh;

}  // namespace thrust
