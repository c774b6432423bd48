#include "sheaf/formats/archives/torch_archive.hpp"

#include <gtest/gtest.h>

#include <bit>

#include "tests/formats/archives/made_archive.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::formats {
namespace {

using namespace std::string_literals;
using Axes = std::vector<std::int64_t>;

TorchState state_in(const std::string& program, const std::string& key = "") {
  const TorchArchive archive("a.pt", archive_of(program));
  return archive.state(key);
}

TorchTensor tensor_in(const PickledTensor& tensor) {
  return state_in(pickled_entry("w", tensor.text())).tensors.at(0);
}

void expect_refused(const std::string& program, const std::string& message) {
  EXPECT_EQ(error_of<IoError>([&] { state_in(program); }),
            "a.pt: byte 0: " + message);
}

void expect_refused(const PickledTensor& tensor, const std::string& message) {
  expect_refused(pickled_entry("w", tensor.text()), message);
}

TEST(TorchArchive, TensorsAreDescribed) {
  const TorchArchive archive(
      "a.pt",
      archive_of(pickled_entry("w", pickled_view(1, {2, 2}, {1, 3}).text())));
  const TorchState state = archive.state("");
  ASSERT_EQ(state.tensors.size(), 1u);
  EXPECT_EQ(state.tensors[0].name, "w");
  EXPECT_EQ(state.tensors[0].storage, 0u);
  EXPECT_EQ(state.tensors[0].offset, 1);
  EXPECT_EQ(state.tensors[0].sizes, (Axes{2, 2}));
  EXPECT_EQ(state.tensors[0].strides, (Axes{1, 3}));
  ASSERT_EQ(state.storages.size(), 1u);
  EXPECT_EQ(state.storages[0].dtype, DType::kF32);
  EXPECT_EQ(state.storages[0].count, 6);
  EXPECT_EQ(archive.read(state.storages[0]).bytes(), std::string(24, '\0'));
  EXPECT_FALSE(archive.is_swapped());
}

TEST(TorchArchive, ViewsLieInsideOfTheStorage) {
  EXPECT_EQ(tensor_in(pickled_view(0, {6}, {1})).sizes, (Axes{6}));
  EXPECT_EQ(tensor_in(pickled_view(5, {}, {})).offset, 5);
  EXPECT_EQ(tensor_in(pickled_view(5, {4}, {0})).sizes, (Axes{4}));
  // A tensor without elements may be anywhere.
  EXPECT_EQ(tensor_in(pickled_view(9, {3, 0}, {1, 1})).sizes, (Axes{3, 0}));
}

TEST(TorchArchive, ViewsBeyondTheStorageAreRefused) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  const std::string beyond =
      "'w' reaches beyond its storage of 6 elements; the file is corrupt";
  expect_refused(pickled_view(1, {6}, {1}), beyond);
  expect_refused(pickled_view(6, {}, {}), beyond);
  expect_refused(pickled_view(0, {3, 2}, {2, 2}), beyond);
  expect_refused(pickled_view(-1, {2}, {1}), beyond);
  expect_refused(pickled_view(-1, {0}, {1}), beyond);
  expect_refused(pickled_view(0, {2}, {1, 1}), beyond);
  expect_refused(pickled_view(0, {0}, {}), beyond);
  // The products or their sum do not fit 64 bits.
  expect_refused(pickled_view(0, {5}, {kHuge}), beyond);
  expect_refused(pickled_view(0, {2, 2, 2}, {kHuge, kHuge, 1}), beyond);
}

// With strides of 0 each element is inside; their number must fit, too.
TEST(TorchArchive, TensorsLargerThanMemoryAreRefused) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 61;
  const std::string large = "'w' is larger than any memory";
  expect_refused(pickled_view(0, {kHuge}, {0}), large);
  expect_refused(pickled_view(0, {kHuge, kHuge}, {0, 0}), large);
  expect_refused(pickled_view(0, {kHuge, 0, kHuge}, {0, 0, 0}), large);
  EXPECT_EQ(tensor_in(pickled_view(0, {kHuge - 1}, {0})).sizes[0], kHuge - 1);
}

TEST(TorchArchive, TensorsHaveAtMost64Axes) {
  EXPECT_EQ(tensor_in(pickled_view(0, Axes(64, 1), Axes(64, 1))).sizes.size(),
            64u);
  expect_refused(pickled_view(0, Axes(65, 1), Axes(65, 1)),
                 "'w' has 65 axes; a tensor has at most 64");
}

TEST(TorchArchive, SizesAndStridesAreIntegers) {
  PickledTensor tensor;
  tensor.sizes = pickled("six");
  expect_refused(tensor, "'w' has the string 'six' as size or stride");
  tensor.sizes = pickled(Axes{-6});
  expect_refused(tensor, "'w' has the integer -6 as size or stride");
  tensor.sizes = "(\x88t";
  expect_refused(tensor, "'w' has True as size or stride");
  tensor.sizes = "ctorch\nSize\n(" + pickled(Axes{6}) + "tR";
  EXPECT_EQ(tensor_in(tensor).sizes, (Axes{6}));
  tensor.sizes = pickled(Axes{6});
  tensor.strides = pickled(Axes{-1});
  expect_refused(tensor, "'w' has the integer -1 as size or stride");
  tensor.strides = "";
  expect_refused(tensor, "'w' lacks its storage, offset, size or stride");
}

TEST(TorchArchive, StoragesAreDescribedCompletely) {
  const auto with = [](const std::string& word, const std::string& type,
                       const std::string& key, const std::string& count) {
    PickledTensor tensor;
    tensor.storage =
        concat("(", pickled(word), type, key, pickled("cpu"), count, "tQ");
    return tensor;
  };
  const std::string floats = "ctorch\nFloatStorage\n", key = pickled("0");
  const std::string wrong = "'w' has a storage as its storage";
  EXPECT_EQ(tensor_in(with("storage", floats, key, pickled(6))).sizes[0], 6);
  expect_refused(with("module", floats, key, pickled(6)), wrong);
  expect_refused(with("storage", floats, key, pickled("6")), wrong);
  expect_refused(with("storage", floats, pickled(0), pickled(6)), wrong);
  expect_refused(with("storage", pickled("FloatStorage"), key, pickled(6)),
                 wrong);
  expect_refused(with("storage", floats, key, pickled(7)),
                 "the entry archive/data/0 holds 6 elements instead of 7");
  expect_refused(with("storage", floats, key, pickled(-1)),
                 "the entry archive/data/0 holds 6 elements instead of -1");
  expect_refused(with("storage", floats, pickled("1"), pickled(6)),
                 "the entry archive/data/1 is missing");
  expect_refused(with("storage", "ctorch\nQInt8Storage\n", key, pickled(6)),
                 "'w' is stored in a torch.QInt8Storage; complex and quantized "
                 "tensors cannot be read");
  PickledTensor tensor;
  tensor.storage = "Nq\1Q";
  expect_refused(tensor, wrong);
  tensor.storage = "N";
  expect_refused(tensor, "'w' has None as its storage");
  // Without the count, the fifth part.
  tensor.storage =
      "(" + pickled("storage") + floats + key + pickled("cpu") + "tQ";
  expect_refused(tensor, wrong);
}

TEST(TorchArchive, AStorageHasOneDescription) {
  const auto state = [](const std::string& type, std::int64_t count) {
    PickledTensor other = pickled_view(0, {1}, {1});
    other.storage = pickled_storage(type, "0", count);
    return "}(" + pickled("a") + PickledTensor().text() + pickled("b") +
           other.text() + "u";
  };
  EXPECT_EQ(state_in(state("FloatStorage", 6)).storages.size(), 1u);
  const std::string two =
      "the storage 0 is described in two ways; the file is corrupt";
  expect_refused(state("IntStorage", 6), two);
  expect_refused(state("FloatStorage", 5), two);
}

TEST(TorchArchive, NamesOfTensorsDiffer) {
  const std::string tensor = pickled("w") + PickledTensor().text();
  expect_refused("}(" + tensor + tensor + "u", "two tensors have the name 'w'");
}

TEST(TorchArchive, OnlyKnownFunctionsBuildTensors) {
  PickledTensor tensor;
  tensor.builder = "torch._utils\n_rebuild_tensor";
  EXPECT_EQ(tensor_in(tensor).sizes[0], 6);
  tensor.builder = "torch._utils\n_rebuild_qtensor";
  expect_refused(tensor,
                 "'w' is built by torch._utils._rebuild_qtensor, which is not "
                 "supported; save plain, dense tensors");
  const std::string parameter = "ctorch._utils\n_rebuild_parameter\n(";
  const std::string plain = PickledTensor().text();
  EXPECT_EQ(
      state_in(pickled_entry("w", parameter + plain + "tR")).tensors.size(),
      1u);
  expect_refused(
      pickled_entry("w", parameter + parameter + plain + "tRtR"),
      "'w' is built by torch._utils._rebuild_parameter, which is not "
      "supported; save plain, dense tensors");
  expect_refused(pickled_entry("w", "cos\nsystem\n(" + pickled("ls") + "tR"),
                 "the entry of the string 'w' is an object of os.system, not a "
                 "tensor; save model.state_dict() in Python");
}

TEST(TorchArchive, AKeySelectsAStateOfACheckpoint) {
  const std::string state = pickled_entry("w", PickledTensor().text());
  const std::string checkpoint =
      "}(" + pickled("model") + state + pickled("epoch") + pickled(3) +
      pickled("ema") + state + pickled("options") +
      pickled_entry("rate", pickled(1)) + pickled("none") + "}u";
  EXPECT_EQ(state_in(checkpoint, "ema").tensors.at(0).name, "w");
  const std::string keys = "; keys that hold a state: model, ema";
  const auto error = [&](const std::string& key) {
    return error_of<IoError>([&] { state_in(checkpoint, key); });
  };
  const std::string begin = "a.pt: byte 0: ";
  EXPECT_EQ(error("optimizer"), begin + "there is no key 'optimizer'" + keys);
  EXPECT_EQ(error("epoch"), begin +
                                "the file holds the integer 3 instead of a "
                                "dictionary of tensors" +
                                keys);
  EXPECT_EQ(error(""), begin +
                           "the entry of the string 'model' is a dictionary, "
                           "not a tensor" +
                           keys);
  EXPECT_TRUE(state_in(checkpoint, "none").tensors.empty());
  expect_refused("N"s,
                 "the file holds None instead of a dictionary of tensors; save "
                 "model.state_dict() in Python");
}

// The same dictionary, whose last value is not a tensor, at very many keys.
TEST(TorchArchive, ManyKeysOfOneDictionaryAreExaminedOnce) {
  std::string program = "ctorch._utils\n_rebuild_x\n)Rq\0020}q\1(";
  for (int i = 0; i < 50'000; ++i) program += "Nh\2";
  program += "NK\1u0}(";
  for (int i = 0; i < 50'000; ++i) program += "Nh\1";
  EXPECT_NE(error_of<IoError>([&] {
              state_in(program + "u");
            }).find("the entry of None is a dictionary, not a tensor"),
            std::string::npos);
}

std::string with_entries(
    const std::vector<std::pair<std::string, std::string>>& entries) {
  ZipWriter archive;
  for (const auto& [name, content] : entries) archive.add(name, {content});
  return archive.bytes();
}

std::string error_in(const std::string& bytes) {
  return error_of<IoError>([&] { TorchArchive("a.pt", bytes).state(""); });
}

// torch.save names the byte order, and the folder after the file.
TEST(TorchArchive, TheByteOrderIsRead) {
  const std::string pickle =
      pickle_of(pickled_entry("w", pickled_view(0, {2}, {1}).text()));
  const auto archive = [&](const std::string& order) {
    return with_entries({{"model/data.pkl", pickle},
                         {"model/data/0", std::string(24, 'x')},
                         {"model/byteorder", order}});
  };
  constexpr bool kIsBig = std::endian::native == std::endian::big;
  EXPECT_EQ(TorchArchive("a", archive("big")).is_swapped(), !kIsBig);
  EXPECT_EQ(TorchArchive("a", archive("little")).is_swapped(), kIsBig);
  for (const std::string order : {"", "medium", "big but long"})
    EXPECT_NE(error_in(archive(order)).find("neither little nor big"),
              std::string::npos)
        << order;
}

TEST(TorchArchive, OtherArchivesAreRefused) {
  EXPECT_EQ(error_in(with_entries({{"archive/data.txt", "x"}})),
            "a.pt: byte 0: the archive has no data.pkl; it was not written by "
            "torch.save");
  EXPECT_NE(error_in(with_entries({{"a/data.pkl", "x"}, {"b/data.pkl", "x"}}))
                .find("more than one data.pkl"),
            std::string::npos);
}

}  // namespace
}  // namespace sheaf::formats
