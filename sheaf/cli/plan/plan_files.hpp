#pragma once
// The YAML files of `sheaf plan` and `sheaf predict`: devices and custom
// operators.

#include <string>

#include "sheaf/plan/graph/operator_map.hpp"
#include "sheaf/plan/predict/device_profile.hpp"

namespace sheaf::cli {

// Reads a device description from a YAML file:
//
//   name: Tesla T4
//   tflops: {f32: 8.1, f16: 65, int8: 130}
//   memory_gbs: 320
//   memory: 15G           # optional, as are the next two
//   launch_us: 4
//   host_time: 1.2
//
// Throws UsageError with the file, the line and the problem, or IoError if
// the file cannot be read.
plan::DeviceProfile read_device(const std::string& path);
plan::DeviceProfile parse_device(const std::string& text,
                                 const std::string& path);

// Reads a YAML file that declares operators unknown to PyTorch:
//
//   operators:
//     - name: mine::product
//       backward: [MineBackward]
//       may_change: true
//
// Throws UsageError with the file, the line and the problem, or IoError if
// the file cannot be read.
plan::CustomOperators read_custom_operators(const std::string& path);
plan::CustomOperators parse_custom_operators(const std::string& text,
                                             const std::string& path);

}  // namespace sheaf::cli
