#include "sheaf/base/error.hpp"
#include "sheaf/data/catalog/catalog.hpp"
#include "sheaf/data/formats/array_files.hpp"

namespace sheaf::data {
namespace {

struct IdxSums {
  std::uint32_t images;
  std::uint32_t labels;
};

std::vector<KnownFile> idx_files(bool is_train, IdxSums train, IdxSums test) {
  const std::string begin = is_train ? "train" : "t10k";
  const IdxSums sums = is_train ? train : test;
  return {{begin + "-images-idx3-ubyte", sums.images},
          {begin + "-labels-idx1-ubyte", sums.labels}};
}

std::vector<KnownFile> cifar_files(CifarKind kind, const std::string& split) {
  std::vector<KnownFile> files;
  for (const std::string& name : cifar_file_names(kind, split))
    files.push_back({name});
  return files;
}

}  // namespace

std::vector<KnownFile> known_files(const std::string& name,
                                   const std::string& split) {
  const bool is_train = split == "train";
  SHEAF_CHECK(is_train || split == "test", name, " has no split '", split,
              "'; allowed: train, test");
  if (name == "mnist")
    return idx_files(is_train, {0xe9f4d8b3, 0xe0cb4ad2},
                     {0x91373bdf, 0x4ab9eff9});
  if (name == "fashion-mnist")
    return idx_files(is_train, {0xb4f29f28, 0x741a4657},
                     {0x678fe0b1, 0x80142c1f});
  return cifar_files(
      name == "cifar10" ? CifarKind::kCifar10 : CifarKind::kCifar100, split);
}

}  // namespace sheaf::data
