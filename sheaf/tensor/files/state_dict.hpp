#pragma once
// A module's parameters and buffers by name, and files of them that go both
// ways between C++ and Python. See docs/files.md.

#include <torch/nn/module.h>
#include <torch/types.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace sheaf::tensor {

using StateDict = std::vector<std::pair<std::string, at::Tensor>>;

// Names and order as of Python's module.state_dict(). The tensors share the
// module's memory and are detached.
StateDict state_dict(const torch::nn::Module& module);

// Copies the values into the module's own tensors, whatever their types and
// devices. Names and shapes must be just those of the module; else UsageError
// names what is missing, unexpected or of another shape, and the module stays
// as it was.
void load_state_dict(torch::nn::Module& module, const StateDict& state);

// Python's torch.load reads it as an OrderedDict of CPU tensors. Tensors that
// overlap in memory (tied weights) still do when loaded. From any device.
// Replaces the file in one step.
void save_state_dict(const std::filesystem::path& path, const StateDict& state);

struct StateDictFileOptions {
  // Where the state is in a checkpoint, such as "model" for
  // {"model": model.state_dict(), "epoch": 3}; "": the file is the state.
  std::string key;
};

// What Python's torch.save(model.state_dict(), path) wrote (the zip format, the
// default since torch 1.6), or save_state_dict. CPU tensors; those that share
// memory in the file do here. No code from the file is run. IoError names file
// and byte, or the entry that is no tensor and the keys that may be meant.
StateDict load_state_dict_file(const std::filesystem::path& path,
                               const StateDictFileOptions& options = {});

}  // namespace sheaf::tensor
