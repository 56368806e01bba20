// Texture and surface functions: declared so that their use is refused with a clear message.
#pragma once

namespace kspec_host {
template <class T> struct Never { enum { value = false }; };
}  // namespace kspec_host

#define KSPEC_TEXTURE(NAME)                                                                   \
  template <class T, class... A> static inline T NAME(A...) {                                 \
    static_assert(kspec_host::Never<T>::value, #NAME "() can not run on the host device; "    \
                  "guard it with '#ifndef KSPEC_HOST' and give a C++ alternative");           \
  }                                                                                           \
  template <class T, class... A> static inline void NAME(T*, A...) {                          \
    static_assert(kspec_host::Never<T>::value, #NAME "() can not run on the host device; "    \
                  "guard it with '#ifndef KSPEC_HOST' and give a C++ alternative");           \
  }
KSPEC_TEXTURE(tex1D)
KSPEC_TEXTURE(tex1Dfetch)
KSPEC_TEXTURE(tex1DLayered)
KSPEC_TEXTURE(tex2D)
KSPEC_TEXTURE(tex2DLod)
KSPEC_TEXTURE(tex2DLayered)
KSPEC_TEXTURE(tex3D)
KSPEC_TEXTURE(tex3DLod)
KSPEC_TEXTURE(texCubemap)
KSPEC_TEXTURE(surf1Dread)
KSPEC_TEXTURE(surf2Dread)
KSPEC_TEXTURE(surf3Dread)
#undef KSPEC_TEXTURE
#define KSPEC_SURFACE(NAME)                                                                   \
  template <class T, class... A> static inline void NAME(T, A...) {                           \
    static_assert(kspec_host::Never<T>::value, #NAME "() can not run on the host device; "    \
                  "guard it with '#ifndef KSPEC_HOST' and give a C++ alternative");           \
  }
KSPEC_SURFACE(surf1Dwrite)
KSPEC_SURFACE(surf2Dwrite)
KSPEC_SURFACE(surf3Dwrite)
#undef KSPEC_SURFACE
enum cudaSurfaceBoundaryMode { cudaBoundaryModeZero, cudaBoundaryModeClamp, cudaBoundaryModeTrap };
