// Connects the target of this program with libFuzzer.
#include "sheaf/base/log.hpp"
#include "tests/fuzz/fuzz_target.hpp"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  sheaf::set_log_level(sheaf::LogLevel::kOff);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  static const sheaf::fuzz::Target target =
      sheaf::fuzz::targets().begin()->second;
  target({data, size});
  return 0;
}
