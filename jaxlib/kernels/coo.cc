#include "jaxlib/kernels/coo.h"

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "jaxlib/kernels/factors.h"
#include "jaxlib/kernels/scattered_sums.h"

namespace jaxlib_ext {
namespace {

// So many sums of a row are kept in registers.
constexpr size_t kBlock = 8;
// So many elements are compared before a thread looks whether it can stop.
constexpr size_t kCompared = 1 << 10;

// Of the matrix, or its transpose: "row" and "column" are those of what is multiplied.
template <typename T, typename Index, CooFormat format>
class Product {
  // The indices along a dimension are so far apart.
  static constexpr size_t kStride = format == CooFormat::kBcoo ? 2 : 1;

 public:
  Product(const CooMatrix& matrix, bool transpose, const void* dense, size_t width, void* out)
      : data_(static_cast<const T*>(matrix.data)),
        rows_(Indices(matrix, transpose ? 1 : 0)),
        columns_(Indices(matrix, transpose ? 0 : 1)),
        num_elements_(matrix.num_elements),
        num_rows_(transpose ? matrix.num_columns : matrix.num_rows),
        num_columns_(transpose ? matrix.num_rows : matrix.num_columns),
        dense_(static_cast<const T*>(dense)),
        width_(width),
        out_(static_cast<T*>(out)) {}

  void Run(TaskRunner& runner) const {
    const bool nothing_to_read = format == CooFormat::kCoo && num_columns_ == 0;
    if (!nothing_to_read && IsSorted(runner)) return AddSorted(runner);
    std::fill_n(out_, num_rows_ * width_, T{});
    if (nothing_to_read) return;
    AddInParts(runner, num_elements_, num_rows_, width_, out_,
               [&](size_t begin, size_t end, T* to) { AddElements(begin, end, to); });
  }

 private:
  // There may be no pointer to indices where there are none.
  static const Index* Indices(const CooMatrix& matrix, size_t dimension) {
    if (matrix.num_elements == 0) return nullptr;
    if (format == CooFormat::kBcoo) return static_cast<const Index*>(matrix.rows) + dimension;
    return static_cast<const Index*>(dimension == 0 ? matrix.rows : matrix.columns);
  }

  Index RowIndex(size_t i) const { return rows_[kStride * i]; }

  // Whether rows are in order, none of them counted from the end.
  bool IsSorted(TaskRunner& runner) const {
    if (num_elements_ == 0) return true;
    if (rows_[0] < 0) return false;
    std::atomic<bool> sorted = true;
    ParallelRanges(runner, num_elements_ - 1, kProductGrain, [&](size_t begin, size_t end) {
      for (; begin < end && sorted.load(std::memory_order_relaxed);) {
        const size_t stop = std::min(end, begin + kCompared);
        Index descents = 0;  // of the indices' type, for vector instructions
        for (; begin < stop; ++begin) descents |= static_cast<Index>(RowIndex(begin) > RowIndex(begin + 1));
        if (descents != 0) sorted.store(false, std::memory_order_relaxed);
      }
    });
    return sorted;
  }

  // A part has all elements of its rows.
  void AddSorted(TaskRunner& runner) const {
    const size_t parts = NumParts(runner, num_elements_ * width_);
    ParallelFor(runner, parts, [&](size_t, size_t part) {
      const size_t begin = RowStart(num_elements_ * part / parts);
      const size_t end = part + 1 == parts ? num_elements_ : RowStart(num_elements_ * (part + 1) / parts);
      const size_t first = part == 0 ? 0 : RowOf(begin);
      const size_t last = part + 1 == parts ? num_rows_ : RowOf(end);
      if (width_ == 1) {
        AddNumbers(begin, end, first, last);
      } else {
        AddRows(begin, end, first, last);
      }
    });
  }

  // The first element, from `at` on, of another row than the one before it.
  size_t RowStart(size_t at) const {
    if (at == 0) return 0;
    const Index row = RowIndex(at - 1);
    size_t end = num_elements_;
    while (at < end) {
      const size_t middle = at + (end - at) / 2;
      if (RowIndex(middle) > row) {
        end = middle;
      } else {
        at = middle + 1;
      }
    }
    return at;
  }

  size_t RowOf(size_t i) const { return i < num_elements_ ? Place(RowIndex(i), num_rows_) : num_rows_; }

  // Writes the sums from `row` to `last` that the elements from `begin` to `end`, in order, add up to.
  void AddNumbers(size_t begin, size_t end, size_t row, size_t last) const {
    std::fill_n(out_ + row, last - row, T{});
    while (begin < end) {
      const Index index = RowIndex(begin);
      const size_t place = Place(index, num_rows_);
      if (place >= last) break;  // padding only
      T sum{};
      do {
        sum += Times(data_[begin], Number(begin));
        ++begin;
      } while (begin < end && RowIndex(begin) == index);
      out_[place] = sum;
    }
  }

  // Writes the rows from `row` to `last` that the elements from `begin` to `end`, in order, add up to.
  void AddRows(size_t begin, size_t end, size_t row, size_t last) const {
    while (begin < end) {
      const Index index = RowIndex(begin);
      const size_t next = Place(index, num_rows_);
      if (next >= last) break;  // padding only
      std::fill_n(out_ + row * width_, (next - row) * width_, T{});
      row = next + 1;
      size_t stop = begin + 1;
      while (stop < end && RowIndex(stop) == index) ++stop;
      size_t first = 0;
      for (; first + kBlock <= width_; first += kBlock) Sums<kBlock>(next, begin, stop, first);
      for (; first < width_; ++first) Sums<1>(next, begin, stop, first);
      begin = stop;
    }
    std::fill_n(out_ + row * width_, (last - row) * width_, T{});
  }

  template <size_t count>
  void Sums(size_t row, size_t begin, size_t end, size_t first) const {
    T sums[count] = {};
    for (size_t i = begin; i < end; ++i) {
      const T zeros[count] = {};
      const size_t column = Column(i);
      const T* from = column == num_columns_ ? zeros : dense_ + column * width_ + first;
      for (size_t j = 0; j < count; ++j) sums[j] += Times(data_[i], from[j]);
    }
    std::copy_n(sums, count, out_ + row * width_ + first);
  }

  void AddElements(size_t begin, size_t end, T* out) const {
    for (size_t i = begin; i < end; ++i) {
      size_t row = static_cast<size_t>(RowIndex(i));  // negative ones become large
      if (row >= num_rows_) {
        row = Place(RowIndex(i), num_rows_);
        if (row == num_rows_) continue;
      }
      const size_t column = Column(i);
      if (width_ == 1) {
        out[row] += Times(data_[i], column == num_columns_ ? T{} : dense_[column]);
        continue;
      }
      T* to = out + row * width_;
      if (column == num_columns_) {
        for (size_t j = 0; j < width_; ++j) to[j] += Times(data_[i], T{});
        continue;
      }
      const T* from = dense_ + column * width_;
      for (size_t j = 0; j < width_; ++j) to[j] += Times(data_[i], from[j]);
    }
  }

  // What an element is multiplied with, where that is a number.
  T Number(size_t i) const {
    const auto column = static_cast<size_t>(columns_[kStride * i]);  // negative ones become large
    if (column < num_columns_) return dense_[column];
    const size_t place = Column(i);
    return place == num_columns_ ? T{} : dense_[place];
  }

  // `num_columns_` where zeros are read.
  size_t Column(size_t i) const {
    const Index index = columns_[kStride * i];
    if (static_cast<size_t>(index) < num_columns_) return static_cast<size_t>(index);
    return format == CooFormat::kBcoo ? Place(index, num_columns_) : Clamped(index, num_columns_);
  }

  const T* const data_;
  const Index* const rows_;
  const Index* const columns_;
  const size_t num_elements_;
  const size_t num_rows_;
  const size_t num_columns_;
  const T* const dense_;
  const size_t width_;
  T* const out_;
};

}  // namespace

void CooProduct(TaskRunner& runner, const CooMatrix& matrix, bool transpose, const void* dense,
                size_t width, void* out) {
  if (width == 0) return;
  VisitFactorAndIndex(matrix.type, matrix.wide, [&](auto factor, auto index) {
    using T = decltype(factor);
    using Index = decltype(index);
    if (matrix.format == CooFormat::kBcoo) {
      Product<T, Index, CooFormat::kBcoo>(matrix, transpose, dense, width, out).Run(runner);
    } else {
      Product<T, Index, CooFormat::kCoo>(matrix, transpose, dense, width, out).Run(runner);
    }
  });
}

}  // namespace jaxlib_ext
