#pragma once
// Differentiable collectives, each with a reference that computes the results
// of all ranks in one process. All numbers are small integers, so that sums are
// exact and bits can be compared.

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "sheaf/tensor/groups/differentiable.hpp"

namespace sheaf::tensor::differentiable {

struct DifferentiableCase {
  std::string name;
  std::function<at::Tensor(const Group&, const at::Tensor&)> run;
  // The results of all ranks from the inputs of all ranks.
  std::function<Tensors(const Tensors&)> reference;
};

inline void PrintTo(const DifferentiableCase& one, std::ostream* out) {
  *out << one.name;
}

constexpr int kDifferentiableRoot = 0;

// The input of a rank: any function can split it among up to four ranks.
inline at::Tensor differentiable_input(int rank) {
  return (at::arange(24, at::kDouble).view({12, 2}) * 3 + rank * 5)
      .remainder(7);
}

// Parts have two axes, because cat() cuts empty tensors with one axis out of
// the graph.
inline at::Tensor flattened(const Tensors& tensors) {
  Tensors columns;
  for (const at::Tensor& one : tensors)
    columns.push_back(one.reshape({one.numel(), 1}));
  return at::cat(columns).view(-1);
}

// Parts of different shapes, for rank `from` to send to rank `to`.
inline at::Tensor uneven_part(const at::Tensor& input, int from, int to) {
  const at::Tensor part = input.narrow(0, to, from + to + 1);
  return to % 2 == 0 ? part : part.t();
}

inline Tensors uneven_parts(const at::Tensor& input, int from, int ranks) {
  Tensors parts;
  for (int to = 0; to < ranks; ++to)
    parts.push_back(uneven_part(input, from, to));
  return parts;
}

inline at::Tensor sum_of(const Tensors& inputs) {
  return at::stack(inputs).sum(0);
}

inline Tensors on_all(std::size_t ranks, const at::Tensor& result) {
  return Tensors(ranks, result);
}

inline Tensors on_root(std::size_t ranks, const at::Tensor& result,
                       const at::Tensor& elsewhere) {
  Tensors results(ranks, elsewhere);
  results[kDifferentiableRoot] = result;
  return results;
}

inline std::vector<DifferentiableCase> differentiable_cases() {
  const auto row_parts = [](const at::Tensor& input, std::size_t ranks) {
    return input.narrow(0, 0, static_cast<std::int64_t>(12 / ranks * ranks))
        .chunk(static_cast<std::int64_t>(ranks));
  };
  return {
      {"all_reduce",
       [](const Group& group, const at::Tensor& x) {
         return all_reduce(group, x);
       },
       [](const Tensors& xs) { return on_all(xs.size(), sum_of(xs)); }},
      {"all_reduce_transposed",
       [](const Group& group, const at::Tensor& x) {
         return all_reduce(group, x.t().slice(1, 1, 9, 2));
       },
       [](const Tensors& xs) {
         return on_all(xs.size(), sum_of(xs).t().slice(1, 1, 9, 2));
       }},
      {"reduce",
       [](const Group& group, const at::Tensor& x) { return reduce(group, x); },
       [](const Tensors& xs) {
         return on_root(xs.size(), sum_of(xs), at::zeros_like(xs[0]));
       }},
      {"broadcast",
       [](const Group& group, const at::Tensor& x) {
         return broadcast(group, x.t());
       },
       [](const Tensors& xs) {
         return on_all(xs.size(), xs[kDifferentiableRoot].t());
       }},
      {"all_gather",
       [](const Group& group, const at::Tensor& x) {
         return flattened(all_gather(group, x));
       },
       [](const Tensors& xs) { return on_all(xs.size(), flattened(xs)); }},
      {"all_gather_uneven",
       [](const Group& group, const at::Tensor& x) {
         return flattened(all_gather(group, uneven_part(x, 0, group.rank())));
       },
       [](const Tensors& xs) {
         Tensors parts;
         for (std::size_t rank = 0; rank < xs.size(); ++rank)
           parts.push_back(uneven_part(xs[rank], 0, static_cast<int>(rank)));
         return on_all(xs.size(), flattened(parts));
       }},
      {"gather",
       [](const Group& group, const at::Tensor& x) {
         return flattened(gather(group, x.t()));
       },
       [](const Tensors& xs) {
         Tensors parts;
         for (const at::Tensor& x : xs) parts.push_back(x.t());
         return on_root(xs.size(), flattened(parts), at::empty({0}));
       }},
      {"reduce_scatter",
       [=](const Group& group, const at::Tensor& x) {
         return reduce_scatter(
             group,
             at::cat(row_parts(x, static_cast<std::size_t>(group.size()))));
       },
       [=](const Tensors& xs) { return row_parts(sum_of(xs), xs.size()); }},
      {"reduce_scatter_uneven",
       [](const Group& group, const at::Tensor& x) {
         return reduce_scatter(group, uneven_parts(x, 0, group.size()));
       },
       [](const Tensors& xs) {
         return uneven_parts(sum_of(xs), 0, static_cast<int>(xs.size()));
       }},
      {"scatter",
       [](const Group& group, const at::Tensor& x) {
         const bool is_root = group.rank() == kDifferentiableRoot;
         return scatter(group,
                        is_root ? uneven_parts(x, 0, group.size()) : Tensors(),
                        uneven_part(x, 0, group.rank()));
       },
       [](const Tensors& xs) {
         return uneven_parts(xs[kDifferentiableRoot], 0,
                             static_cast<int>(xs.size()));
       }},
      {"all_to_all",
       [](const Group& group, const at::Tensor& x) {
         return flattened(
             all_to_all(group, uneven_parts(x, group.rank(), group.size())));
       },
       [](const Tensors& xs) {
         const int ranks = static_cast<int>(xs.size());
         Tensors results;
         for (int to = 0; to < ranks; ++to) {
           Tensors received;
           for (int from = 0; from < ranks; ++from)
             received.push_back(
                 uneven_part(xs[static_cast<std::size_t>(from)], from, to));
           results.push_back(flattened(received));
         }
         return results;
       }},
  };
}

// The loss of a rank. The second term makes it depend on `x` in any case.
inline at::Tensor differentiable_loss(const at::Tensor& x, const at::Tensor& y,
                                      int rank) {
  return (y * y * (rank + 1)).sum() + (x * x).sum();
}

inline at::Tensor take_gradient(const at::Tensor& x) {
  const at::Tensor gradient = x.grad();
  x.mutable_grad() = at::Tensor();
  return gradient;
}

// What each rank computes: result, gradient, gradient of the gradient's square.
struct DifferentiableResult {
  at::Tensor result;
  at::Tensor gradient;
  at::Tensor second;
};

inline std::vector<DifferentiableResult> in_one_process(
    const DifferentiableCase& one, int ranks) {
  Tensors xs;
  for (int rank = 0; rank < ranks; ++rank)
    xs.push_back(differentiable_input(rank).requires_grad_());
  const Tensors ys = one.reference(xs);
  at::Tensor loss = at::zeros({}, at::kDouble);
  std::vector<DifferentiableResult> results(xs.size());
  for (std::size_t i = 0; i < xs.size(); ++i) {
    results[i].result = ys[i].detach();
    loss = loss + differentiable_loss(xs[i], ys[i], static_cast<int>(i));
  }
  loss.backward({}, /*keep_graph=*/true, /*create_graph=*/true);
  at::Tensor squares = at::zeros({}, at::kDouble);
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const at::Tensor gradient = take_gradient(xs[i]);
    results[i].gradient = gradient.detach();
    squares = squares + (gradient * gradient).sum();
  }
  squares.backward();
  for (std::size_t i = 0; i < xs.size(); ++i)
    results[i].second = take_gradient(xs[i]);
  return results;
}

inline DifferentiableResult on_ranks(const DifferentiableCase& one,
                                     const Group& group) {
  const at::Tensor x = differentiable_input(group.rank()).requires_grad_();
  const at::Tensor y = one.run(group, x);
  differentiable_loss(x, y, group.rank())
      .backward({}, /*keep_graph=*/true, /*create_graph=*/true);
  const at::Tensor gradient = take_gradient(x);
  (gradient * gradient).sum().backward();
  return {y.detach(), gradient.detach(), take_gradient(x)};
}

inline void expect_reference(const DifferentiableCase& one,
                             const Group& group) {
  const auto all = in_one_process(one, group.size());
  const auto& want = all[static_cast<std::size_t>(group.rank())];
  const auto got = on_ranks(one, group);
  EXPECT_EQ(got.result.sizes(), want.result.sizes()) << one.name;
  EXPECT_TRUE(got.result.equal(want.result.to(at::kDouble)))
      << one.name << got.result << want.result;
  EXPECT_TRUE(got.gradient.equal(want.gradient))
      << one.name << got.gradient << want.gradient;
  EXPECT_TRUE(got.second.equal(want.second))
      << one.name << got.second << want.second;
}

}  // namespace sheaf::tensor::differentiable
