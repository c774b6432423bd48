#pragma once
// Tensors in numpy's files. See docs/files.md.

#include <torch/types.h>

#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sheaf::tensor {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// The array of a .npy file as a contiguous CPU tensor of its own memory. Format
// versions 1 to 3, both orders of axes and of bytes. IoError names file and
// byte when it is cut off, corrupt, or of a type that tensors do not have.
at::Tensor load_npy(const std::filesystem::path& path);

// numpy.load reads it back; bfloat16, which numpy lacks, as '<V2' (the way of
// ml_dtypes). From any device, any strides. Replaces the file in one step.
void save_npy(const std::filesystem::path& path, const at::Tensor& tensor);

// The arrays of a .npz file, compressed or not, in the order of the file; names
// without ".npy". Errors as load_npy's.
NamedTensors load_npz(const std::filesystem::path& path);

// numpy.load reads it back. Names must differ. Replaces the file in one step.
void save_npz(const std::filesystem::path& path, const NamedTensors& arrays);

}  // namespace sheaf::tensor
