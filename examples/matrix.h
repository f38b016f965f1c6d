#pragma once

#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

// The little linear algebra that the examples need; row-major.
struct Matrix {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::vector<float> values;

  Matrix() = default;
  Matrix(std::size_t r, std::size_t c) : rows(r), columns(c), values(r * c) {}
  static Matrix random(std::size_t rows, std::size_t columns, unsigned seed) {
    Matrix matrix(rows, columns);
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal(0, 1 / std::sqrt(static_cast<float>(rows)));
    for (float& value : matrix.values) value = normal(generator);
    return matrix;
  }
  float* row(std::size_t r) { return values.data() + r * columns; }
  const float* row(std::size_t r) const { return values.data() + r * columns; }
};

// output += input · weights, each row of the input by itself.
inline void multiply_add(const Matrix& input, const Matrix& weights, Matrix& output) {
  for (std::size_t r = 0; r < input.rows; ++r) {
    for (std::size_t k = 0; k < input.columns; ++k) {
      const float factor = input.row(r)[k];
      for (std::size_t c = 0; c < weights.columns; ++c) output.row(r)[c] += factor * weights.row(k)[c];
    }
  }
}

inline Matrix multiply(const Matrix& input, const Matrix& weights) {
  Matrix output(input.rows, weights.columns);
  multiply_add(input, weights, output);
  return output;
}

inline void rectify(Matrix& matrix) {
  for (float& value : matrix.values) value = value > 0 ? value : 0;
}
