// How kernels run on the host device: each thread takes a chunk of the elements, which a CPU does
// fastest. Where they are reviewed (kspec/host/rt/review.h), they do what they do on a GPU.
#pragma once

#if defined(KSPEC_HOST) && !(KSPEC_HOST_AS_GPU + 0)
#define KSPEC_CHUNKED 1
#endif
