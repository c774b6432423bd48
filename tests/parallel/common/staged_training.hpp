#pragma once
// Gradients that some ranks copy to the host, as ranks with a GPU do, and
// others exchange in place.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <vector>

#include "sheaf/parallel/data/reducer.hpp"
#include "tests/support/compare.hpp"

namespace sheaf::parallel::test {

// A small parameter, a large one whose size is not a multiple of a cache line,
// and a small one.
inline std::vector<TrainedParameter> three_parameters() {
  std::vector<TrainedParameter> list;
  for (const int size : {7, 257 * 257, 33})
    list.push_back({"w" + std::to_string(size),
                    torch::ones({size}).set_requires_grad(true)});
  return list;
}

inline double largest_error(Reducer& reducer,
                            std::vector<TrainedParameter>& parameters,
                            double factor, double average) {
  reducer.before_forward();
  at::Tensor loss = torch::zeros({});
  for (auto& one : parameters) {
    one.tensor.mutable_grad().reset();
    loss = loss + (one.tensor * factor).sum();
  }
  loss.backward();
  double largest = 0;
  for (const auto& one : parameters)
    largest = std::max(
        largest,
        sheaf::test::largest_difference(
            one.tensor.grad(), at::full_like(one.tensor.detach(), average)));
  return largest;
}

// Ranks contribute 1, 2, 3 and so on, whose averages are exact, also in 16
// bits.
inline void train_staged(const comm::Group& group, bool is_staged,
                         ReducerOptions options, std::size_t buckets) {
  auto parameters = three_parameters();
  options.is_staged = is_staged;
  Reducer reducer(parameters, group, options);
  BackwardPass backward;
  backward.connect({&reducer}, reducer.connections());
  const double average = (group.size() + 1) / 2.0;
  for (int pass = 0; pass < 3; ++pass) {
    EXPECT_EQ(largest_error(reducer, parameters, group.rank() + 1, average), 0);
    EXPECT_EQ(reducer.bucket_count(), buckets);
  }
}

}  // namespace sheaf::parallel::test
