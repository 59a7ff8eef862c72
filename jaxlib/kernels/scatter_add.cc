#include "jaxlib/kernels/scatter_add.h"

#include <cstdint>
#include <type_traits>

#include "jaxlib/kernels/numbers.h"

namespace jaxlib_ext {
namespace {

template <typename T>
struct Sum {
  using Type = std::make_unsigned_t<T>;
};
template <>
struct Sum<float> {
  using Type = float;
};
template <>
struct Sum<double> {
  using Type = double;
};

template <typename T>
T Add(T a, T b) {
  using S = typename Sum<T>::Type;
  return static_cast<T>(static_cast<S>(static_cast<S>(a) + static_cast<S>(b)));
}

template <typename T, typename Index>
void AddRows(size_t num_rows, size_t width, size_t num_updates, const Index* indices,
             const T* updates, T* out) {
  if (width == 1) {
    for (size_t i = 0; i < num_updates; ++i) {
      const auto row = static_cast<uint64_t>(indices[i]);  // negative ones become large
      if (row < num_rows) out[row] = Add(out[row], updates[i]);
    }
    return;
  }
  for (size_t i = 0; i < num_updates; ++i) {
    const auto row = static_cast<uint64_t>(indices[i]);
    if (row >= num_rows) continue;
    T* to = out + row * width;
    const T* from = updates + i * width;
    for (size_t c = 0; c < width; ++c) to[c] = Add(to[c], from[c]);
  }
}

}  // namespace

void ScatterAdd(ElementType type, ElementType index_type, size_t num_rows, size_t width,
                size_t num_updates, const void* indices, const void* updates, void* out) {
  VisitNumber(type, [&](auto number) {
    VisitNumber(index_type, [&](auto index) {
      using T = decltype(number);
      using Index = decltype(index);
      if constexpr (std::is_integral_v<Index>) {
        AddRows(num_rows, width, num_updates, static_cast<const Index*>(indices),
                static_cast<const T*>(updates), static_cast<T*>(out));
      }
    });
  });
}

}  // namespace jaxlib_ext
