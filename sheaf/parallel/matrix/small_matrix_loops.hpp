#pragma once
// The loops of small_matrix.hpp. Included once per instruction set, by sources
// with different compiler flags. The linker must not merge code of these
// sources, so everything here and in the two headers below is in an anonymous
// namespace, and the standard library is not used.

#include "sheaf/parallel/matrix/small_matrix_square.hpp"

namespace sheaf::parallel {
namespace {

// Fixed pseudo-random numbers between -1 and 1.
void fill_any(double* x, Index count) {
  std::uint64_t state = 1;
  for (Index i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    x[i] = static_cast<double>(static_cast<std::int64_t>(state)) * 0x1p-63;
  }
}

constexpr int kMostIterations = 60;
// Stop if the gain of an iteration is below this fraction of the remainder.
constexpr double kConverged = 2e-4;

// Columns of an orthogonal iteration with C C^T, and their products with C^T.
struct Block {
  CoreMatrix core;
  Index size;
  double* u;
  double* z;
  double* between;  // n x size
  double* spare;    // n x size
  double* h;        // the next three are size x size
  double* turn;
  double* rows;
  double* values;
  double* sums;
};

Block block_in(double* work, const CoreMatrix& core, Index size) {
  const Index columns = core.n * size;
  double* const small = work + 4 * columns;
  const Index square = size * size;
  return {core,
          size,
          work,
          work + columns,
          work + 2 * columns,
          work + 3 * columns,
          small,
          small + square,
          small + 2 * square,
          small + 3 * square,
          small + 3 * square + size};
}

// z = C^T u.
void apply_transposed(Block& block) {
  const auto& [n, left, right, l, r, total] = block.core;
  multiply({l, left, 1}, n, left, block.u, block.size, block.between);
  multiply({r, 1, right}, right, n, block.between, block.size, block.z);
}

// u = C z.
void apply(Block& block) {
  const auto& [n, left, right, l, r, total] = block.core;
  multiply({r, right, 1}, n, right, block.z, block.size, block.between);
  multiply({l, 1, left}, left, n, block.between, block.size, block.u);
}

void orthonormalize(Block& block, double least) {
  orthonormalize(block.u, block.core.left, block.size, least, block.sums);
}

Columns columns_of(const Block& block) {
  return {block.z, block.u, block.core.right, block.core.left, block.size};
}

void turn(double*& columns, Index rows, Block& block) {
  multiply({columns, block.size, 1}, rows, block.size, block.turn, block.size,
           block.spare);
  swap(columns, block.spare);
}

// Orthonormalizes u and rotates it toward the singular vectors within its span.
// Returns the part of the sum of squares that the first `wanted` columns have.
double improve(Block& block, Index wanted) {
  const Index size = block.size;
  orthonormalize(block, kAnyLength);
  apply_transposed(block);
  multiply({block.z, 1, size}, size, block.core.right, block.z, size, block.h);
  set_identity(block.rows, size);
  diagonalise(block.h, size, block.rows, /*sweeps=*/2);
  for (Index c = 0; c < size; ++c)
    for (Index i = 0; i < size; ++i)
      block.turn[i * size + c] = block.rows[c * size + i];
  turn(block.u, block.core.left, block);
  turn(block.z, block.core.right, block);
  sort(columns_of(block), block.values);
  double sum = 0;
  for (Index c = 0; c < wanted; ++c) sum += block.values[c];
  return sum;
}

void iterate(Block& block, Index wanted) {
  const double total = block.core.total;
  fill_any(block.z, block.core.right * block.size);
  apply(block);
  double sum = improve(block, wanted);
  for (int i = 1; i < kMostIterations; ++i) {
    apply(block);
    const double before = sum;
    sum = improve(block, wanted);
    const double gain = __builtin_fabs(sum - before);
    if (gain <= kConverged * (total - sum) || gain <= 1e-14 * total) return;
  }
}

void set_all_columns(Block& block) {
  for (Index i = 0; i < block.core.left; ++i)
    for (Index c = 0; c < block.size; ++c)
      block.u[i * block.size + c] = i == c ? 1 : 0;
}

// Orthogonal iteration. After each step, the block is rotated toward the
// singular vectors within its span, so that its first columns are the best so
// far, and so that products do not make the columns parallel.
Pairs find_largest(const LargestProblem& problem) {
  Block block = block_in(problem.work, problem.core, problem.block);
  if (problem.block < problem.core.left)
    iterate(block, problem.wanted);
  else
    set_all_columns(block);
  apply_transposed(block);
  separate(columns_of(block));
  sort(columns_of(block), block.values);
  return {block.u, block.z, block.values};
}

// Removes the components of u in the first `rank` found columns.
void project_out(const RestProblem& problem, Block& block) {
  const Index left = problem.core.left;
  const Index found = problem.found_block;
  multiply({problem.found, 1, found}, problem.rank, left, block.u, block.size,
           block.between);
  multiply({problem.found, found, 1}, left, problem.rank, block.between,
           block.size, block.spare);
  for (Index i = 0; i < left * block.size; ++i) block.u[i] -= block.spare[i];
}

void make_other_columns(const RestProblem& problem, Block& block,
                        double least) {
  project_out(problem, block);
  orthonormalize(block, least);
}

// Because many columns are sought, a few steps of orthogonal iteration from an
// arbitrary start come close to the best; if all of the remainder is kept, no
// step is needed. The found columns are projected out twice at the end. The
// first projection leaves rounding errors, which may be all that remains of a
// column; the second one removes them and leaves other columns nearly
// unchanged. Columns that lose half of their length, to the found columns or to
// each other, are rounding errors: if they were normalized, they would bring
// back part of the found columns.
Pairs find_rest(const RestProblem& problem) {
  constexpr int kSteps = 2;
  Block block = block_in(problem.work, problem.core, problem.block);
  fill_any(block.u, problem.core.left * block.size);
  make_other_columns(problem, block, kAnyLength);
  const bool has_all = problem.core.left - problem.rank <= block.size;
  for (int i = 0; i < kSteps && !has_all; ++i) {
    apply_transposed(block);
    apply(block);
    make_other_columns(problem, block, kAnyLength);
  }
  make_other_columns(problem, block, /*least=*/0.5);
  apply_transposed(block);
  sort(columns_of(block), block.values);
  return {block.u, block.z, block.values};
}

constexpr MatrixLoops make_loops(const char* name) {
  return {name,           gram<float>,     gram<double>,
          combine<float>, combine<double>, find_largest,
          find_rest};
}

}  // namespace
}  // namespace sheaf::parallel
