#pragma once
// Reads and writes tensors as NumPy files. See docs/reference/files.md.

#include <torch/types.h>

#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sheaf::tensor {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Reads the array of a .npy file into a new contiguous CPU tensor. Supports
// format versions 1 to 3, C and Fortran order, and both byte orders. Throws
// IoError, which names the file and the byte offset, if the file is truncated,
// corrupt, or has an unsupported element type.
at::Tensor load_npy(const std::filesystem::path& path);

// Writes a .npy file for numpy.load. bfloat16, which NumPy lacks, is written as
// '<V2', like ml_dtypes does. The tensor may be on any device and have any
// strides. Replaces the file atomically.
void save_npy(const std::filesystem::path& path, const at::Tensor& tensor);

// The arrays of a .npz file, compressed or not, in file order. Names are
// without ".npy". Throws like load_npy.
NamedTensors load_npz(const std::filesystem::path& path);

// Writes an uncompressed .npz file for numpy.load. Throws UsageError if two
// names are equal. Replaces the file atomically.
void save_npz(const std::filesystem::path& path, const NamedTensors& arrays);

}  // namespace sheaf::tensor
