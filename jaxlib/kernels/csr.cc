#include "jaxlib/kernels/csr.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "jaxlib/kernels/factors.h"
#include "jaxlib/kernels/scattered_sums.h"

namespace jaxlib_ext {
namespace {

// So many sums of a row are kept in registers.
constexpr size_t kBlock = 8;

template <typename T, typename Index>
class Product {
 public:
  Product(const CsrMatrix& matrix, const T* dense, size_t width, T* out)
      : matrix_(matrix),
        data_(static_cast<const T*>(matrix.data)),
        indices_(static_cast<const Index*>(matrix.indices)),
        indptr_(static_cast<const Index*>(matrix.indptr)),
        dense_(dense),
        width_(width),
        out_(out) {}

  void Forward(TaskRunner& runner) const {
    const size_t rows = matrix_.num_rows;
    if (matrix_.num_columns == 0 || !IsOrdered()) {
      std::fill_n(out_, rows * width_, T{});
      if (matrix_.num_columns != 0) ScatterRows();
      return;
    }
    // Parts have about as many elements as others, since rows may differ much.
    const size_t work = matrix_.num_elements + rows;
    const size_t parts = NumParts(runner, work * width_);
    if (parts == 1) return Rows(0, rows);
    ParallelFor(runner, parts, [&](size_t, size_t part) {
      Rows(RowAt(work * part / parts), RowAt(work * (part + 1) / parts));
    });
  }

  void Transposed(TaskRunner& runner) const {
    std::fill_n(out_, matrix_.num_columns * width_, T{});
    if (matrix_.num_rows == 0 || matrix_.num_columns == 0) return;
    if (!IsOrdered()) {
      const std::vector<int64_t> rows = RowsOfElements();
      for (size_t i = 0; i < matrix_.num_elements; ++i) {
        AddToColumn(i, Clamped(rows[i], matrix_.num_rows), out_);
      }
      return;
    }
    AddInParts(runner, matrix_.num_elements, matrix_.num_columns, width_, out_,
               [&](size_t begin, size_t end, T* to) { Columns(begin, end, to); });
  }

 private:
  // Whether the ranges of the rows follow each other from the first element on.
  bool IsOrdered() const {
    const size_t rows = matrix_.num_rows;
    bool ordered = indptr_[0] == 0;
    for (size_t row = 0; row < rows; ++row) ordered &= indptr_[row] <= indptr_[row + 1];
    return ordered && static_cast<size_t>(indptr_[rows]) <= matrix_.num_elements;
  }

  // The first row before which there are `work` elements and rows.
  size_t RowAt(size_t work) const {
    size_t low = 0;
    size_t high = matrix_.num_rows;
    // Behind the last row there is padding only.
    if (work >= static_cast<size_t>(indptr_[high]) + high) return high;
    while (low < high) {
      const size_t row = low + (high - low) / 2;
      if (static_cast<size_t>(indptr_[row]) + row < work) {
        low = row + 1;
      } else {
        high = row;
      }
    }
    return low;
  }

  void Rows(size_t begin, size_t end) const {
    for (size_t row = begin; row < end; ++row) {
      const auto first = static_cast<size_t>(indptr_[row]);
      const auto last = static_cast<size_t>(indptr_[row + 1]);
      if (width_ == 1) {
        T sum{};
        for (size_t i = first; i < last; ++i) {
          sum += Times(data_[i], dense_[Clamped(indices_[i], matrix_.num_columns)]);
        }
        out_[row] = sum;
        continue;
      }
      size_t column = 0;
      for (; column + kBlock <= width_; column += kBlock) Sums<kBlock>(row, first, last, column);
      for (; column < width_; ++column) Sums<1>(row, first, last, column);
    }
  }

  template <size_t count>
  void Sums(size_t row, size_t first, size_t last, size_t column) const {
    T sums[count] = {};
    for (size_t i = first; i < last; ++i) {
      const T* from = dense_ + Clamped(indices_[i], matrix_.num_columns) * width_ + column;
      for (size_t j = 0; j < count; ++j) sums[j] += Times(data_[i], from[j]);
    }
    std::copy_n(sums, count, out_ + row * width_ + column);
  }

  void Columns(size_t begin, size_t end, T* out) const {
    size_t row = static_cast<size_t>(
        std::upper_bound(indptr_ + 1, indptr_ + matrix_.num_rows + 1, begin,
                         [](size_t at, Index stop) { return at < static_cast<size_t>(stop); }) -
        (indptr_ + 1));
    while (begin < end) {
      const bool padding = row >= matrix_.num_rows;
      const size_t stop = padding ? end : std::min(end, static_cast<size_t>(indptr_[row + 1]));
      // What is padding reads the last row.
      AddRow(begin, stop, std::min(row, matrix_.num_rows - 1), out);
      begin = std::max(begin, stop);
      ++row;
    }
  }

  // Adds the products of elements with a row of the dense matrix to the rows of the elements' columns.
  void AddRow(size_t begin, size_t end, size_t row, T* out) const {
    const T* from = dense_ + row * width_;
    if (width_ != 1) {
      for (size_t i = begin; i < end; ++i) AddToColumn(i, row, out);
      return;
    }
    for (size_t i = begin; i < end; ++i) {
      size_t column = static_cast<size_t>(indices_[i]);  // negative ones become large
      if (column >= matrix_.num_columns) {
        column = Place(indices_[i], matrix_.num_columns);
        if (column == matrix_.num_columns) continue;
      }
      out[column] += Times(data_[i], *from);
    }
  }

  void AddToColumn(size_t i, size_t row, T* out) const {
    const size_t column = Place(indices_[i], matrix_.num_columns);
    if (column == matrix_.num_columns) return;
    const T* from = dense_ + row * width_;
    T* to = out + column * width_;
    for (size_t j = 0; j < width_; ++j) to[j] += Times(data_[i], from[j]);
  }

  // For ranges in any order: the row of an element is the number of ranges that begin at or before it,
  // less one.
  std::vector<int64_t> RowsOfElements() const {
    std::vector<int64_t> rows(matrix_.num_elements);
    for (size_t row = 0; row <= matrix_.num_rows; ++row) {
      const size_t place = Place(indptr_[row], rows.size());
      if (place < rows.size()) ++rows[place];
    }
    int64_t begun = -1;
    for (int64_t& row : rows) row = begun += row;
    return rows;
  }

  void ScatterRows() const {
    const std::vector<int64_t> rows = RowsOfElements();
    for (size_t i = 0; i < rows.size(); ++i) {
      const size_t row = Place(rows[i], matrix_.num_rows);
      if (row == matrix_.num_rows) continue;
      const T* from = dense_ + Clamped(indices_[i], matrix_.num_columns) * width_;
      for (size_t j = 0; j < width_; ++j) out_[row * width_ + j] += Times(data_[i], from[j]);
    }
  }

  const CsrMatrix& matrix_;
  const T* const data_;
  const Index* const indices_;
  const Index* const indptr_;
  const T* const dense_;
  const size_t width_;
  T* const out_;
};

}  // namespace

void CsrProduct(TaskRunner& runner, const CsrMatrix& matrix, bool transpose, const void* dense,
                size_t width, void* out) {
  if (width == 0) return;
  VisitFactorAndIndex(matrix.type, matrix.wide, [&](auto factor, auto index) {
    using T = decltype(factor);
    const Product<T, decltype(index)> product(matrix, static_cast<const T*>(dense), width,
                                              static_cast<T*>(out));
    transpose ? product.Transposed(runner) : product.Forward(runner);
  });
}

}  // namespace jaxlib_ext
