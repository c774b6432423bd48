#pragma once
// Models and clusters to plan for.

#include <string>
#include <vector>

#include "sheaf/plan/predict/cluster.hpp"
#include "tests/plan/predict/recorded_models.hpp"

namespace sheaf::plan {

// A chain of layers with different costs; odd layers are slow in bf16.
inline std::vector<ModelOperator> chain(int layers) {
  std::vector<ModelOperator> model;
  for (int i = 0; i < layers; ++i) {
    std::vector<int> inputs;
    if (i > 0) inputs.push_back(2 * i - 1);
    model.push_back({"aten::conv2d", concat("c", i), inputs,
                     1e5 + 7e4 * (i % 3), 20.0 + 30 * (i % 4)});
    model.push_back({"aten::relu", "", {2 * i}, 1e5 + 7e4 * (i % 3), 5});
  }
  return model;
}

// fc has a weight of 500 x 1,000, 2 MB, with one row on each worker.
inline std::vector<ModelOperator> wide_model() {
  auto model = small_model();
  model.back().elements = 1000;
  return model;
}

inline Cluster cluster_of(const Recorded& recorded) {
  Cluster cluster;
  cluster.kinds.push_back({&recorded, casts_of(recorded), 1, 1});
  return cluster;
}

inline Cluster four_hosts(const Recorded& recorded, double network_gbs) {
  Cluster cluster = cluster_of(recorded);
  cluster.kinds[0].count = 4;
  cluster.placement = topo::placement_of(topo::Dims{{1, 4}});
  cluster.machine.network = {1, network_gbs};
  return cluster;
}

}  // namespace sheaf::plan
