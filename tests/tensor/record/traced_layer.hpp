#pragma once
// A layer's forward and backward pass, recorded and written as a trace.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "sheaf/base/files.hpp"
#include "sheaf/tensor/groups/scope.hpp"
#include "sheaf/tensor/record/recorder.hpp"
#include "sheaf/tensor/record/trace_text.hpp"
#include "tests/base/temporary_folder.hpp"

namespace sheaf::tensor {

using Json = nlohmann::json;

// The index of the n-th event with the name; -1: not found.
inline int place_of(const RecordedThread& thread, const std::string& name,
                    int n = 0) {
  for (std::size_t i = 0; i < thread.events.size(); ++i)
    if (thread.names[thread.events[i].name] == name && n-- == 0)
      return static_cast<int>(i);
  return -1;
}

inline const RecordedEvent& event_named(const RecordedThread& thread,
                                        const std::string& name) {
  const int place = place_of(thread, name);
  if (place < 0) throw std::runtime_error("no event " + name);
  return thread.events[static_cast<std::size_t>(place)];
}

class TracedLayer : public testing::Test {
 protected:
  // y = x w; only w and its gradient remain allocated afterwards.
  void compute() {
    const Scope scope("sheaf::phase forward");
    const at::Tensor x = torch::ones({4, 3});
    torch::mm(x, weight_).sum().backward();
  }
  Json written(const Recorder& recorder, const std::string& name = "a.json") {
    const auto path = folder_.path() / name;
    write_trace(path, recorder, {1, 2, "a \"CPU\""}, R"({"version": 1})");
    return Json::parse(read_file(path));
  }

  TemporaryFolder folder_;
  at::Tensor weight_ = torch::ones({3, 5}).requires_grad_();
};

}  // namespace sheaf::tensor
