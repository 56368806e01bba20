// _floor_divide: the quotient rounded down, as Python's and NumPy's `//`.
#pragma once

namespace kspec {

// An integer divided by zero is 0, and -2^31 / -1 wraps: both are as in NumPy, and both would
// stop a CPU.
template <class Integer, class Unsigned>
__device__ inline Integer floor_divide_signed(Integer left, Integer right) {
  if (right == 0) return 0;
  if (right == -1) return (Integer)(0 - (Unsigned)left);
  const Integer quotient = left / right;
  return quotient - (left % right != 0 && (left < 0) != (right < 0));
}

// From the remainder, which is exact: left / right may round up to the next integer. Divided by
// zero it is what left / right is.
template <class Real> __device__ inline Real floor_divide_real(Real left, Real right) {
  if (right == 0) return left / right;
  Real rest = fmod(left, right);
  Real quotient = (left - rest) / right;
  if (rest != 0 && (rest < 0) != (right < 0)) quotient -= 1;
  if (quotient == 0) return copysign(Real(0), left / right);
  Real down = floor(quotient);
  return quotient - down > Real(0.5) ? down + 1 : down;
}

}  // namespace kspec

__device__ inline int _floor_divide(int left, int right) {
  return kspec::floor_divide_signed<int, unsigned int>(left, right);
}
__device__ inline long long _floor_divide(long long left, long long right) {
  return kspec::floor_divide_signed<long long, unsigned long long>(left, right);
}
__device__ inline unsigned int _floor_divide(unsigned int left, unsigned int right) {
  return right ? left / right : 0;
}
__device__ inline unsigned long long _floor_divide(unsigned long long left,
                                                   unsigned long long right) {
  return right ? left / right : 0;
}
__device__ inline float _floor_divide(float left, float right) {
  return kspec::floor_divide_real(left, right);
}
__device__ inline double _floor_divide(double left, double right) {
  return kspec::floor_divide_real(left, right);
}
