// What kernels say to each other in a programmatic dependent launch (pdl=True), under the names of
// CUDA's own functions. Those are in a header of the toolkit, and GPUs before compute capability 9.0
// have none; these do nothing there, nor on the host device, where no kernel begins too early.
#pragma once

namespace kspec {

// Lets the next kernel on the stream begin, once every block has said so or ended.
__device__ inline void trigger_programmatic_launch_completion() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Waits until the kernel in front has ended and what it wrote can be seen.
__device__ inline void grid_dependency_synchronize() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace kspec
