#pragma once
// A module's parameters and buffers by name, and files of them that C++ and
// Python can both read and write. See docs/reference/files.md. Any thread may
// call these functions, but not while another one changes the same module or
// file; none communicates with other ranks.

#include <torch/nn/module.h>
#include <torch/types.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace sheaf::tensor {

using StateDict = std::vector<std::pair<std::string, at::Tensor>>;

// Names and order match Python's module.state_dict(). The tensors share the
// module's memory and are detached.
StateDict state_dict(const torch::nn::Module& module);

// Copies the values into the module's tensors, converting types and devices.
// Names and shapes must match the module exactly; otherwise throws UsageError,
// which lists missing, unexpected and duplicate names and shape mismatches, and
// leaves the module unchanged.
void load_state_dict(torch::nn::Module& module, const StateDict& state);

// Writes a file that Python's torch.load reads as an OrderedDict of CPU
// tensors. Tensors may be on any device. Tensors that overlap in memory (tied
// weights) still overlap when loaded. Replaces the file atomically.
void save_state_dict(const std::filesystem::path& path, const StateDict& state);

struct StateDictFileOptions {
  // Key of the state in a checkpoint, such as "model" for
  // {"model": model.state_dict(), "epoch": 3}; "": the file is the state.
  std::string key;
};

// Reads a file written by save_state_dict or by Python's
// torch.save(model.state_dict(), path) in the zip format, the default since
// torch 1.6. Returns CPU tensors, which share memory as in the file. No code
// from the file is executed. Throws IoError, which names the file and the byte
// offset, or the entry that is not a tensor and the keys that hold a state.
StateDict load_state_dict_file(const std::filesystem::path& path,
                               const StateDictFileOptions& options = {});

}  // namespace sheaf::tensor
