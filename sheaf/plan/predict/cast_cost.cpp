#include "sheaf/plan/predict/cast_cost.hpp"

#include "sheaf/plan/graph/type_flow.hpp"
#include "sheaf/topo/fit.hpp"

namespace sheaf::plan {
namespace {

// Typical for a GPU with 1 TB/s and a core with 10 GB/s; used until measured.
constexpr double kDeviceNsPerByte = 0.001;
constexpr double kCoreNsPerByte = 0.1;

int bytes_moved(Precision from, Precision to) {
  return bytes_of(from) + bytes_of(to);
}

}  // namespace

CastCost fit_cast(const std::vector<CastSample>& samples) {
  std::vector<topo::Sample> list;
  for (const CastSample& one : samples)
    list.push_back({one.elements, one.ns * 1e-3});
  const topo::Link link = topo::fit_link(list).link;
  return {1 / link.bandwidth_gbs, link.latency_us * 1e3};
}

CastCost CastCosts::of(Precision from, Precision to) const {
  if (const auto found = pairs.find({from, to}); found != pairs.end())
    return found->second;
  // Casts between two-byte types are not faster in torch than casts to f32.
  if (const auto found = pairs.find({from, Precision::kF32});
      found != pairs.end() && to != Precision::kInt8)
    return found->second;
  const double usual = has_device ? kDeviceNsPerByte : kCoreNsPerByte;
  if (pairs.empty()) return {usual * bytes_moved(from, to), 2000};
  const auto& [pair, cost] = *pairs.begin();
  const double ratio = static_cast<double>(bytes_moved(from, to)) /
                       bytes_moved(pair.first, pair.second);
  return {cost.ns_per_element * ratio, cost.ns};
}

}  // namespace sheaf::plan
