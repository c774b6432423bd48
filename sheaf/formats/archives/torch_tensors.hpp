#pragma once
// Turns the pickled tensors of a torch.save archive into descriptions.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sheaf/formats/archives/pickle.hpp"
#include "sheaf/formats/archives/torch_archive.hpp"
#include "sheaf/formats/archives/zip.hpp"

namespace sheaf::formats {

// Whether `value` is the call that makes a tensor.
bool is_torch_tensor(const PickleValue& value);

// Throws the IoError "FILE: byte OFFSET of the pickle: MESSAGE".
[[noreturn]] void fail_in_archive(const ZipReader& zip, const ZipEntry* pickle,
                                  const std::string& message);

// Collects the tensors of a state. All functions throw IoError. The pickle must
// outlive the builder.
class TorchStateBuilder {
 public:
  // `pickle`: the entry FOLDER/data.pkl, beside the storages.
  TorchStateBuilder(const ZipReader& zip, const ZipEntry& pickle);

  void add(std::string_view name, const PickleValue& tensor);
  TorchState finish() { return std::move(state_); }

 private:
  std::vector<std::int64_t> integers(std::string_view name,
                                     const PickleValue& value) const;
  std::size_t storage(std::string_view name, const PickleValue& value);
  TorchStorage find_storage(std::string_view key, DType dtype,
                            std::int64_t count) const;
  void check_view(const TorchTensor& tensor) const;
  void check_memory(const TorchTensor& tensor);
  [[noreturn]] void fail(const std::string& message) const {
    fail_in_archive(zip_, &pickle_, message);
  }

  const ZipReader& zip_;
  const ZipEntry& pickle_;
  std::string folder_;
  std::set<std::string_view> names_;
  std::map<std::string_view, std::size_t> storages_;  // by key
  std::uint64_t used_bytes_ = 0;
  TorchState state_;
};

}  // namespace sheaf::formats
