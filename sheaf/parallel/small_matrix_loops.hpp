#pragma once
// The loops of small_matrix.hpp. Included once per instruction set, by sources
// with flags of their own: nothing here, nor in the two headers below, may be
// shared between those, so all is in an anonymous namespace and nothing of the
// standard library is used.

#include "sheaf/parallel/small_matrix_square.hpp"

namespace sheaf::parallel {
namespace {

// Numbers between -1 and 1 that depend on nothing.
void fill_any(double* x, Index count) {
  std::uint64_t state = 1;
  for (Index i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    x[i] = static_cast<double>(static_cast<std::int64_t>(state)) * 0x1p-63;
  }
}

constexpr int kMostIterations = 60;
// What an iteration still gains, as part of what is left out.
constexpr double kConverged = 2e-4;

// The block of an orthogonal iteration, and what A and B A make of it.
struct Block {
  double* x;
  double* ax;
  double* bax;
  double* spare;
  double* h;  // these are block x block
  double* turn;
  double* rows;
  double* values;
};

Block block_in(const PairsProblem& problem) {
  const Index size = problem.n * problem.block;
  const Index square = problem.block * problem.block;
  double* const columns = problem.work;
  double* const small = columns + 4 * size;
  return {columns, columns + size, columns + 2 * size, columns + 3 * size,
          small,   small + square, small + 2 * square, small + 3 * square};
}

void turn(double*& columns, Block& block, const PairsProblem& problem) {
  multiply({columns, problem.block, 1}, problem.n, problem.block, block.turn,
           problem.block, block.spare);
  swap(columns, block.spare);
}

void set_turn(Block& block, Index size) {
  for (Index c = 0; c < size; ++c)
    for (Index i = 0; i < size; ++i)
      block.turn[i * size + c] = block.rows[c * size + i];
}

// Under A. Columns that depend on others become zero, their values too.
void orthonormalise(Block& block, const PairsProblem& problem) {
  const Index n = problem.n;
  const Index size = problem.block;
  multiply({problem.a, n, 1}, n, n, block.x, size, block.ax);
  multiply({block.x, 1, size}, size, n, block.ax, size, block.h);
  invert_cholesky(block.h, size, block.rows, block.values);
  set_turn(block, size);
  turn(block.x, block, problem);
  turn(block.ax, block, problem);
}

// `turn` gets the eigenvectors of h, as far as the sweeps find them.
void find_turn(Block& block, Index size, int sweeps) {
  diagonalise(block.h, size, block.rows, sweeps);
  sort(block.h, size, block.rows);
  set_turn(block, size);
  for (Index c = 0; c < size; ++c) {
    const double value = block.h[c * (size + 1)];
    block.values[c] = value > 0 ? value : 0;
  }
}

// x becomes orthonormal under A; `turn` would make its columns nearly the
// eigenvectors of B A within them. Returns what the wanted of those have of the
// trace.
double improve(Block& block, const PairsProblem& problem) {
  const Index n = problem.n;
  const Index size = problem.block;
  orthonormalise(block, problem);
  multiply({problem.b, n, 1}, n, n, block.ax, size, block.bax);
  multiply({block.ax, 1, size}, size, n, block.bax, size, block.h);
  set_identity(block.rows, size);
  find_turn(block, size, /*sweeps=*/2);
  double sum = 0;
  for (Index c = 0; c < problem.wanted; ++c) sum += block.values[c];
  return sum;
}

void iterate(Block& block, const PairsProblem& problem, double total) {
  double sum = improve(block, problem);
  for (int i = 1; i < kMostIterations; ++i) {
    turn(block.bax, block, problem);
    swap(block.x, block.bax);
    const double before = sum;
    sum = improve(block, problem);
    const double gain = __builtin_fabs(sum - before);
    if (gain <= kConverged * (total - sum) || gain <= 1e-14 * total) return;
  }
}

// Orthogonal iteration. Each time the block is turned towards the eigenvectors
// within it, so that its first columns are the best so far, and so that
// products do not make columns alike.
Pairs find_largest(const PairsProblem& problem) {
  Block block = block_in(problem);
  const double total = dot(problem.a, problem.b, problem.n * problem.n);
  for (Index c = 0; c < problem.block; ++c) block.values[c] = 0;
  const bool is_finite = total - total == 0;
  if (is_finite && total > 0) {
    fill_any(block.x, problem.n * problem.block);
    iterate(block, problem, total);
    find_turn(block, problem.block, /*sweeps=*/30);
    turn(block.x, block, problem);
    turn(block.ax, block, problem);
  }
  return {block.x, block.ax, block.values, total};
}

// x loses what it has of the first `rank` columns that were found.
void project_out(const RestProblem& problem, Block& block) {
  const Index n = problem.pairs->n;
  const Index found = problem.pairs->block;
  multiply({problem.found->ax, 1, found}, problem.rank, n, block.x,
           problem.block, block.h);
  multiply({problem.found->x, found, 1}, n, problem.rank, block.h,
           problem.block, block.spare);
  subtract(1, block.spare, n * problem.block, block.x);
}

// As many columns are sought, few steps of orthogonal iteration from anywhere
// come near to the best; for all that is left none is needed.
Pairs find_rest(const RestProblem& problem) {
  constexpr int kSteps = 2;
  PairsProblem rest = *problem.pairs;
  const Index n = rest.n;
  rest.block = problem.block;
  rest.work = problem.work;
  Block block = block_in(rest);
  fill_any(block.x, n * rest.block);
  project_out(problem, block);
  const int steps = n - problem.rank > rest.block ? kSteps : 0;
  if (steps > 0) multiply({rest.a, n, 1}, n, n, block.x, rest.block, block.ax);
  for (int i = 0; i < steps; ++i) {
    if (i > 0) orthonormalise(block, rest);
    multiply({rest.b, n, 1}, n, n, block.ax, rest.block, block.x);
    project_out(problem, block);
  }
  orthonormalise(block, rest);
  return {block.x, block.ax, block.values, 0};
}

constexpr MatrixLoops make_loops(const char* name) {
  return {name,           gram<float>,     gram<double>,
          combine<float>, combine<double>, find_largest,
          find_rest};
}

}  // namespace
}  // namespace sheaf::parallel
