#pragma once

#include <string>

#include "sheaf/plan/predict/device_profile.hpp"

namespace sheaf::cli {

// name: Tesla T4
// tflops: {f32: 8.1, f16: 65, int8: 130}
// memory_gbs: 320
// memory: 15G           # may be left out, as the next two
// launch_us: 4
// host_time: 1.2
// UsageError names the file, the line and what is wrong there.
plan::DeviceProfile read_device(const std::string& path);

}  // namespace sheaf::cli
