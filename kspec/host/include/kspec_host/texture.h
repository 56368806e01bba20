// Texture and surface objects over host memory: a handle is the address of a TextureData, which
// host/texture.py makes. Mistakes that a GPU answers with nonsense are faults here.
#pragma once

#include "small_float.h"

enum cudaSurfaceBoundaryMode { cudaBoundaryModeZero, cudaBoundaryModeClamp, cudaBoundaryModeTrap };

namespace kspec_host {

enum ChannelKind { CHANNEL_SIGNED, CHANNEL_UNSIGNED, CHANNEL_FLOAT };
enum AddressMode { ADDRESS_WRAP, ADDRESS_CLAMP, ADDRESS_MIRROR, ADDRESS_BORDER };
enum : unsigned { TEXTURE_MAGIC = 0x6b735458 };

struct TextureData {
  unsigned magic;
  int dimensions;  // 1 to 3; 0: linear memory
  int kind, bits, channels;
  int linear_filter, normalized_float, normalized_coordinates, srgb;
  int address[3];
  float border[4];
  long long extent[3];  // in elements; 1 for axes it does not have
  long long stride[3];  // bytes to the next element, row, slice
  unsigned char* data;
};

// A channel as the texture unit delivers it: a float, or an integer of 32 bits.
union Channel {
  float f;
  int i;
};
struct Texel {
  Channel channel[4];
};

// What a fetch may return: element type and number of channels.
template <class T> struct TexelOf;
#define KSPEC_TEXEL(T, E, N) \
  template <> struct TexelOf<T> { typedef E Element; enum { COUNT = N }; };
#define KSPEC_TEXELS(E, NAME) \
  KSPEC_TEXEL(E, E, 1) KSPEC_TEXEL(NAME##1, E, 1) KSPEC_TEXEL(NAME##2, E, 2) \
  KSPEC_TEXEL(NAME##4, E, 4)
KSPEC_TEXEL(char, char, 1)
KSPEC_TEXELS(signed char, char)
KSPEC_TEXELS(unsigned char, uchar)
KSPEC_TEXELS(short, short)
KSPEC_TEXELS(unsigned short, ushort)
KSPEC_TEXELS(int, int)
KSPEC_TEXELS(unsigned int, uint)
KSPEC_TEXELS(float, float)
#undef KSPEC_TEXELS
#undef KSPEC_TEXEL

static inline KSPEC_HOST_UNCHECKED const TextureData* texture_of(unsigned long long handle,
                                                                int dimensions, Site site) {
  const TextureData* texture = (const TextureData*)handle;
  if (texture->magic != TEXTURE_MAGIC)
    fail("texture", "the argument is not a texture or surface object of the host device", site);
  if (texture->dimensions != dimensions)
    fail("texture", dimensions ? "the texture or surface has another number of dimensions"
                               : "tex1Dfetch() reads textures of linear memory only", site);
  return texture;
}

// A colour of sRGB as linear intensity (IEC 61966-2-1).
static KSPEC_HOST_UNCHECKED float linear_of_srgb(float c) {
  return c <= 0.04045f ? c / 12.92f : __builtin_powf((c + 0.055f) / 1.055f, 2.4f);
}

// Channel k of the element at an address.
static KSPEC_HOST_UNCHECKED Channel read_channel(const TextureData* texture,
                                                 const unsigned char* address, int k) {
  address += k * texture->bits / 8;
  Channel value;
  unsigned short half;
  value.i = 0;
  bool is_signed = texture->kind == CHANNEL_SIGNED;
  if (texture->bits == 32) {
    __builtin_memcpy(&value, address, 4);
    return value;
  }
  if (texture->bits == 8) {
    value.i = is_signed ? (int)(signed char)*address : (int)*address;
  } else {
    __builtin_memcpy(&half, address, 2);
    value.i = is_signed ? (int)(short)half : (int)half;
    if (texture->kind == CHANNEL_FLOAT) value.f = HalfFormat::decode(half);
  }
  if (texture->normalized_float && texture->kind != CHANNEL_FLOAT) {
    float largest = (float)((1 << (texture->bits - is_signed)) - 1);
    value.f = (float)value.i / largest;
    if (value.f < -1.0f) value.f = -1.0f;
    if (texture->srgb && k < 3) value.f = linear_of_srgb(value.f);  // the fourth is opacity
  }
  return value;
}

// The element an index means under an address mode, or -1 for the border.
static inline KSPEC_HOST_UNCHECKED long long resolve_index(long long index, long long count,
                                                           int mode) {
  if (index >= 0 && index < count) return index;
  long long period = mode == ADDRESS_MIRROR ? 2 * count : count;
  switch (mode) {
    case ADDRESS_BORDER: return -1;
    case ADDRESS_CLAMP: return index < 0 ? 0 : count - 1;
  }
  index %= period;
  if (index < 0) index += period;
  return index < count ? index : period - 1 - index;
}

static KSPEC_HOST_UNCHECKED Texel read_texel(const TextureData* texture, const long long* index) {
  Texel texel = {};
  const unsigned char* address = texture->data;
  bool border = false;
  for (int axis = 0; axis < texture->dimensions; axis++) {
    // Wrapping and mirroring are defined for normalized coordinates only (CUDA: else clamp).
    int mode = texture->address[axis];
    if (!texture->normalized_coordinates && mode != ADDRESS_BORDER) mode = ADDRESS_CLAMP;
    long long at = resolve_index(index[axis], texture->extent[axis], mode);
    border |= at < 0;
    address += at * texture->stride[axis];
  }
  bool is_float = texture->kind == CHANNEL_FLOAT || texture->normalized_float;
  for (int k = 0; k < texture->channels; k++) {
    if (!border) {
      texel.channel[k] = read_channel(texture, address, k);
    } else if (is_float) {
      texel.channel[k].f = texture->border[k];
    } else {
      texel.channel[k].i = (int)texture->border[k];
    }
  }
  return texel;
}

// A coordinate in elements as index and, for filtering, the weight of the next element: 8 bits of
// fraction as in the hardware (CUDA C++ Programming Guide, texture fetching).
static inline KSPEC_HOST_UNCHECKED long long split_coordinate(const TextureData* texture, int axis,
                                                              float coordinate, float* weight) {
  float x = texture->normalized_coordinates ? coordinate * (float)texture->extent[axis]
                                            : coordinate;
  if (!(x > -1e9f)) x = x == x ? -1e9f : 0.0f;
  if (x > 1e9f) x = 1e9f;
  if (texture->linear_filter) x -= 0.5f;
  float whole = __builtin_floorf(x);
  *weight = __builtin_floorf((x - whole) * 256.0f + 0.5f) * (1.0f / 256.0f);
  return (long long)whole;
}

static KSPEC_HOST_UNCHECKED Texel sample(const TextureData* texture, const float* coordinates) {
  long long base[3], index[3];
  float weight[3];
  int dimensions = texture->dimensions;
  for (int axis = 0; axis < dimensions; axis++)
    base[axis] = split_coordinate(texture, axis, coordinates[axis], &weight[axis]);
  if (!texture->linear_filter) return read_texel(texture, base);
  Texel sum = {};
  for (int corner = 0; corner < 1 << dimensions; corner++) {
    float share = 1.0f;
    for (int axis = 0; axis < dimensions; axis++) {
      int next = corner >> axis & 1;
      index[axis] = base[axis] + next;
      share *= next ? weight[axis] : 1.0f - weight[axis];
    }
    if (share == 0.0f) continue;
    Texel texel = read_texel(texture, index);
    for (int k = 0; k < 4; k++) sum.channel[k].f += share * texel.channel[k].f;
  }
  return sum;
}

template <class T>
static KSPEC_HOST_UNCHECKED T texel_as(const TextureData* texture, Texel texel, Site site) {
  typedef typename TexelOf<T>::Element Element;
  constexpr bool wants_float = Element(0.5f) != Element(0);
  bool is_float = texture->kind == CHANNEL_FLOAT || texture->normalized_float;
  if (is_float != wants_float)
    fail("texture", is_float ? "an integer is fetched, but the texture delivers floats"
                             : "a float is fetched, but the texture delivers integers", site);
  T result;
  Element* elements = (Element*)&result;
  for (int k = 0; k < TexelOf<T>::COUNT; k++)
    elements[k] = wants_float ? (Element)texel.channel[k].f : (Element)texel.channel[k].i;
  return result;
}

template <class T>
static KSPEC_HOST_UNCHECKED T fetch_linear(unsigned long long handle, int index, Site site) {
  const TextureData* texture = texture_of(handle, 0, site);
  Texel texel = {};
  if (index >= 0 && index < texture->extent[0])  // outside: zero
    for (int k = 0; k < texture->channels; k++)
      texel.channel[k] = read_channel(texture, texture->data + index * texture->stride[0], k);
  return texel_as<T>(texture, texel, site);
}

template <class T>
static KSPEC_HOST_UNCHECKED T fetch(unsigned long long handle, int dimensions, float x, float y,
                                    float z, Site site) {
  const TextureData* texture = texture_of(handle, dimensions, site);
  const float coordinates[3] = {x, y, z};
  return texel_as<T>(texture, sample(texture, coordinates), site);
}

// The address of an element of a surface, null when the access is to be dropped. x is in bytes.
static KSPEC_HOST_UNCHECKED unsigned char* surface_address(unsigned long long handle,
                                                           int dimensions, int size, int x, int y,
                                                           int z, int mode, Site site) {
  const TextureData* surface = texture_of(handle, dimensions, site);
  if (x % size) fail("misaligned-address", "the x coordinate of a surface counts bytes and has to "
                     "be a multiple of the size of what is accessed", site);
  long long index[3] = {x, y, z};
  unsigned char* address = surface->data;
  for (int axis = 0; axis < dimensions; axis++) {
    long long width = axis ? 1 : size;
    long long count = axis ? surface->extent[axis] : surface->extent[0] * surface->stride[0];
    if (index[axis] < 0 || index[axis] + width > count) {
      if (mode == cudaBoundaryModeTrap)
        fail("illegal-address", "access outside of a surface (cudaBoundaryModeTrap)", site);
      if (mode == cudaBoundaryModeZero) return nullptr;
      index[axis] = index[axis] < 0 ? 0 : count - width;
    }
    address += index[axis] * (axis ? surface->stride[axis] : 1);
  }
  return address;
}

template <class T>
static KSPEC_HOST_UNCHECKED T surface_read(unsigned long long handle, int dimensions, int x, int y,
                                           int z, int mode, Site site) {
  T value;
  __builtin_memset((void*)&value, 0, sizeof value);
  const void* address = surface_address(handle, dimensions, sizeof(T), x, y, z, mode, site);
  if (address) __builtin_memcpy((void*)&value, address, sizeof value);
  return value;
}

template <class T>
static KSPEC_HOST_UNCHECKED void surface_write(T value, unsigned long long handle, int dimensions,
                                               int x, int y, int z, int mode, Site site) {
  void* address = surface_address(handle, dimensions, sizeof(T), x, y, z, mode, site);
  if (address) __builtin_memcpy(address, (const void*)&value, sizeof value);
}

}  // namespace kspec_host

// Each fetch in both of CUDA's forms: the value returned, and stored through a pointer.
#define KSPEC_FETCH(NAME, PARAMETERS, CALL)                                                    \
  template <class T> static inline T NAME PARAMETERS { return CALL; }
#define KSPEC_FETCH_TO(NAME, PARAMETERS, CALL)                                                 \
  template <class T> static inline void NAME PARAMETERS { *value = CALL; }
#define KSPEC_OBJECT cudaTextureObject_t object
#define KSPEC_COORDINATES(DIMENSIONS, X, Y, Z) \
  kspec_host::fetch<T>(object, DIMENSIONS, X, Y, Z, KSPEC_HOST_HERE)
KSPEC_FETCH(tex1Dfetch, (KSPEC_OBJECT, int x, KSPEC_HOST_SITE),
            kspec_host::fetch_linear<T>(object, x, KSPEC_HOST_HERE))
KSPEC_FETCH_TO(tex1Dfetch, (T* value, KSPEC_OBJECT, int x, KSPEC_HOST_SITE),
               kspec_host::fetch_linear<T>(object, x, KSPEC_HOST_HERE))
KSPEC_FETCH(tex1D, (KSPEC_OBJECT, float x, KSPEC_HOST_SITE), KSPEC_COORDINATES(1, x, 0, 0))
KSPEC_FETCH_TO(tex1D, (T* value, KSPEC_OBJECT, float x, KSPEC_HOST_SITE),
               KSPEC_COORDINATES(1, x, 0, 0))
KSPEC_FETCH(tex2D, (KSPEC_OBJECT, float x, float y, KSPEC_HOST_SITE), KSPEC_COORDINATES(2, x, y, 0))
KSPEC_FETCH_TO(tex2D, (T* value, KSPEC_OBJECT, float x, float y, KSPEC_HOST_SITE),
               KSPEC_COORDINATES(2, x, y, 0))
KSPEC_FETCH(tex3D, (KSPEC_OBJECT, float x, float y, float z, KSPEC_HOST_SITE),
            KSPEC_COORDINATES(3, x, y, z))
KSPEC_FETCH_TO(tex3D, (T* value, KSPEC_OBJECT, float x, float y, float z, KSPEC_HOST_SITE),
               KSPEC_COORDINATES(3, x, y, z))
#undef KSPEC_COORDINATES
#undef KSPEC_OBJECT
#undef KSPEC_FETCH
#undef KSPEC_FETCH_TO

#define KSPEC_SURFACE(N, X, Y, Z, ...)                                                         \
  template <class T>                                                                           \
  static inline T surf##N##Dread(cudaSurfaceObject_t object, __VA_ARGS__,                      \
                                 cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap,          \
                                 KSPEC_HOST_SITE) {                                            \
    return kspec_host::surface_read<T>(object, N, X, Y, Z, mode, KSPEC_HOST_HERE);             \
  }                                                                                            \
  template <class T>                                                                           \
  static inline void surf##N##Dread(T* value, cudaSurfaceObject_t object, __VA_ARGS__,         \
                                    cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap,       \
                                    KSPEC_HOST_SITE) {                                         \
    *value = kspec_host::surface_read<T>(object, N, X, Y, Z, mode, KSPEC_HOST_HERE);           \
  }                                                                                            \
  template <class T>                                                                           \
  static inline void surf##N##Dwrite(T value, cudaSurfaceObject_t object, __VA_ARGS__,         \
                                     cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap,      \
                                     KSPEC_HOST_SITE) {                                        \
    kspec_host::surface_write<T>(value, object, N, X, Y, Z, mode, KSPEC_HOST_HERE);            \
  }
KSPEC_SURFACE(1, x, 0, 0, int x)
KSPEC_SURFACE(2, x, y, 0, int x, int y)
KSPEC_SURFACE(3, x, y, z, int x, int y, int z)
#undef KSPEC_SURFACE

// Layers, mipmaps, cubes and gathering do not exist here.
#define KSPEC_REFUSED(NAME)                                                                   \
  template <class T, class... A> static inline T NAME(A...) {                                 \
    static_assert(kspec_host::Never<T>::value, #NAME "() cannot run on the host device; "    \
                  "guard it with '#ifndef KSPEC_HOST' and give a C++ alternative");           \
  }                                                                                           \
  template <class T, class... A> static inline void NAME(T, A...) {                           \
    static_assert(kspec_host::Never<T>::value, #NAME "() cannot run on the host device; "    \
                  "guard it with '#ifndef KSPEC_HOST' and give a C++ alternative");           \
  }
KSPEC_REFUSED(tex1DLayered)
KSPEC_REFUSED(tex2DLayered)
KSPEC_REFUSED(tex1DLod)
KSPEC_REFUSED(tex2DLod)
KSPEC_REFUSED(tex3DLod)
KSPEC_REFUSED(tex1DGrad)
KSPEC_REFUSED(tex2DGrad)
KSPEC_REFUSED(tex3DGrad)
KSPEC_REFUSED(tex2Dgather)
KSPEC_REFUSED(texCubemap)
KSPEC_REFUSED(texCubemapLayered)
KSPEC_REFUSED(surf1DLayeredread)
KSPEC_REFUSED(surf2DLayeredread)
KSPEC_REFUSED(surfCubemapread)
KSPEC_REFUSED(surf1DLayeredwrite)
KSPEC_REFUSED(surf2DLayeredwrite)
KSPEC_REFUSED(surfCubemapwrite)
#undef KSPEC_REFUSED
