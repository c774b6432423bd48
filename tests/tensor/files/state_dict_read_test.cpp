#include <gtest/gtest.h>

#include "sheaf/formats/zip.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/formats/damage.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/python.hpp"
#include "tests/tensor/files/expect_same.hpp"
#include "tests/tensor/files/state_cases.hpp"

namespace sheaf::tensor {
namespace {

using namespace std::string_literals;

TEST(StateDictRead, ReadsPythons) {
  SHEAF_NEEDS_PYTHON("torch");
  const TemporaryFolder folder;
  run_python(python, folder.path(), R"(
import torch
model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3, bias=False),
                            torch.nn.BatchNorm2d(2), torch.nn.ReLU(),
                            torch.nn.Linear(3, 2))
for p in model.parameters(): p.data = torch.arange(float(p.numel())).view_as(p)
torch.save(model.state_dict(), 'ordered.pt')
torch.save(dict(model.state_dict()), 'plain.pt')
torch.save(model.state_dict(), 'protocol.pt', pickle_protocol=4)
torch.save(dict(model.named_parameters()), 'parameters.pt')
optimizer = torch.optim.Adam(model.parameters())
torch.save(dict(model=model.state_dict(), optimizer=optimizer.state_dict(),
                epoch=3, rate=0.1, note=None, sizes=[1, 2**40], flags={1, 2}),
           'nested.pt')
torch.save(model, 'module.pt')
base = torch.arange(24.).view(4, 6)
wanted = torch.arange(6).view(2, 3)
various = dict(f64=wanted.double(), f32=wanted.float(), f16=wanted.half(),
               bf16=wanted.bfloat16(), i64=wanted, i32=wanted.int(),
               i16=wanted.short(), i8=wanted.char(), u8=wanted.byte(),
               bool=wanted.bool(), scalar=torch.tensor(-1.5),
               empty=torch.zeros(0, 3),
               transposed=torch.arange(6.).view(2, 3).t(),
               sliced=torch.arange(20.)[1::3],
               expanded=torch.ones(1, 3).expand(4, 3), whole=base,
               row=base[2], column=base[:, 5])
torch.save(various, 'various.pt')
torch.save(dict(x=torch.zeros(2, dtype=torch.complex64)), 'complex.pt')
torch.save(dict(x=wanted), 'old.pt', _use_new_zipfile_serialization=False)
)");
  const auto load = [&](const char* name, const std::string& key = "") {
    return load_state_dict_file(folder.path() / name, {.key = key});
  };
  const auto ordered = load("ordered.pt");
  for (const auto* name : {"plain.pt", "protocol.pt"})
    expect_same(load(name), ordered);
  expect_same(load("nested.pt", "model"), ordered);
  EXPECT_EQ(load("parameters.pt").size(), 5u);
  auto network = small_network();
  load_state_dict(*network, ordered);
  EXPECT_TRUE(at::equal(network->parameters()[0].flatten(),
                        at::arange(18, at::kFloat)));
  const auto loaded = load("various.pt");
  expect_same(loaded, various_tensors());
  loaded[15].second.fill_(7);
  EXPECT_EQ(loaded[16].second.sum().item<double>(), 42);
  expect_throws<IoError>([&] { load("nested.pt"); },
                         {"nested.pt", "'model'", "hold a state: model"});
  expect_throws<IoError>([&] { load("nested.pt", "ema"); },
                         {"no key 'ema'", "hold a state: model"});
  expect_throws<IoError>([&] { load("nested.pt", "epoch"); }, {"integer 3"});
  expect_throws<IoError>([&] { load("module.pt"); }, {"Sequential"});
  expect_throws<IoError>([&] { load("complex.pt"); }, {"ComplexFloatStorage"});
  expect_throws<IoError>([&] { load("old.pt"); }, {"old.pt"});
}

TEST(StateDictRead, DamageIsReported) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "state.pt";
  save_state_dict(path, {{"w", at::arange(3.)}});
  EXPECT_GT(formats::damage(path, [&] { load_state_dict_file(path); }), 600u);
}

std::string pickle_of(const std::filesystem::path& path) {
  const formats::ZipReader archive(path);
  return archive.read(*archive.find("archive/data.pkl"));
}

// Writes an archive with the given pickle and one storage: 0 to 5 as floats.
void write_archive(const std::filesystem::path& path,
                   const std::string& pickle) {
  const auto floats = at::arange(6, at::kFloat);
  formats::ZipWriter archive;
  archive.add("archive/data.pkl", {pickle});
  archive.add("archive/data/0",
              {{static_cast<const char*>(floats.data_ptr()), floats.nbytes()}});
  archive.save(path);
}

// Each byte of the pickle is changed, with a valid checksum.
TEST(StateDictRead, DamagedPicklesAreReported) {
  const TemporaryFolder folder;
  const auto good = folder.path() / "good.pt", path = folder.path() / "bad.pt";
  save_state_dict(good, {{"w", at::arange(6.).view({2, 3})}});
  const std::string pickle = pickle_of(good);
  std::size_t refused = 0;
  for (std::size_t i = 0; i < pickle.size(); ++i) {
    for (const int change : {0x01, 0x06, 0x20, 0x80, 0xff}) {
      std::string bad = pickle;
      bad[i] = static_cast<char>(bad[i] ^ change);
      write_archive(path, bad);
      refused += formats::is_refused(path, [&] { load_state_dict_file(path); });
    }
  }
  EXPECT_GT(refused, 3 * pickle.size());
}

// Parts of a pickle that Python could have written.
std::string pickled(const std::string& text) {
  std::string bytes = "X";
  formats::put_u32(bytes, static_cast<std::uint32_t>(text.size()));
  return bytes + text;
}
std::string pickled(std::int64_t value) {
  std::string bytes = "\x8a\x08";
  formats::put_u64(bytes, static_cast<std::uint64_t>(value));
  return bytes;
}
std::string pickled(const std::vector<std::int64_t>& values) {
  std::string bytes = "(";
  for (const std::int64_t value : values) bytes += pickled(value);
  return bytes + "t";
}

struct PickledTensor {
  std::string builder = "torch._utils\n_rebuild_tensor_v2";
  std::string storage = pickled("storage") + "ctorch\nFloatStorage\n" +
                        pickled("0") + pickled("cpu") + pickled(6);
  std::int64_t offset = 0;
  std::string sizes = pickled(std::vector<std::int64_t>{6});
  std::string strides = pickled(std::vector<std::int64_t>{1});

  std::string text() const {
    return concat("c", builder, "\n((", storage, "tQ", pickled(offset), sizes,
                  strides, "tR");
  }
};

// A dictionary of one entry.
std::string pickled_entry(const std::string& name, const std::string& value) {
  return "}" + pickled(name) + value + "s";
}

class MadeState : public testing::Test {
 protected:
  // Loads a file whose pickle leaves the result of `program` on the stack.
  StateDict load(const std::string& program, const std::string& key = "") {
    write_archive(path_, "\x80\2" + program + ".");
    return load_state_dict_file(path_, {.key = key});
  }
  at::Tensor load(const PickledTensor& tensor) {
    return load(pickled_entry("w", tensor.text())).at(0).second;
  }
  template <class Content>
  void expect_refused(const Content& content, const std::string& message) {
    const std::string text = error_of<IoError>([&] { load(content); });
    EXPECT_EQ(text, concat(path_.string(), ": byte 0: ", message));
  }

  TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "state.pt";
};

using Axes = std::vector<std::int64_t>;

PickledTensor made_view(std::int64_t offset, const Axes& sizes,
                        const Axes& strides) {
  PickledTensor tensor;
  tensor.offset = offset;
  tensor.sizes = pickled(sizes);
  tensor.strides = pickled(strides);
  return tensor;
}

TEST_F(MadeState, ViewsLieInsideOfTheStorage) {
  const auto floats = at::arange(6, at::kFloat);
  EXPECT_TRUE(load(made_view(0, {6}, {1})).equal(floats));
  EXPECT_TRUE(load(made_view(1, {2, 2}, {1, 3}))
                  .equal(floats.as_strided({2, 2}, {1, 3}, 1)));
  EXPECT_TRUE(load(made_view(5, {}, {})).equal(floats[5]));
  EXPECT_TRUE(load(made_view(5, {4}, {0})).equal(floats[5].expand({4})));
  EXPECT_EQ(load(made_view(9, {3, 0}, {1, 1})).sizes(), (Axes{3, 0}));
}

TEST_F(MadeState, ViewsBeyondTheStorageAreRefused) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  const std::string beyond =
      "'w' reaches beyond its storage of 6 elements; the file is corrupt";
  expect_refused(made_view(1, {6}, {1}), beyond);
  expect_refused(made_view(6, {}, {}), beyond);
  expect_refused(made_view(0, {3, 2}, {2, 2}), beyond);
  expect_refused(made_view(-1, {2}, {1}), beyond);
  expect_refused(made_view(0, {2}, {1, 1}), beyond);
  // The products or their sum do not fit 64 bits.
  expect_refused(made_view(0, {5}, {kHuge}), beyond);
  expect_refused(made_view(0, {2, 2, 2}, {kHuge, kHuge, 1}), beyond);
}

TEST_F(MadeState, SizesAndStridesAreIntegers) {
  PickledTensor tensor;
  tensor.sizes = pickled("six");
  expect_refused(tensor, "'w' has the string 'six' as size or stride");
  tensor.sizes = pickled(Axes{-6});
  expect_refused(tensor, "'w' has the integer -6 as size or stride");
  tensor.sizes = "ctorch\nSize\n(" + pickled(Axes{6}) + "tR";
  EXPECT_EQ(load(tensor).numel(), 6);
  tensor.strides = "";
  expect_refused(tensor, "'w' lacks its storage, offset, size or stride");
}

TEST_F(MadeState, StoragesAreDescribedCompletely) {
  const auto with = [](const std::string& word, const std::string& type,
                       const std::string& key, const std::string& count) {
    PickledTensor tensor;
    tensor.storage = concat(pickled(word), "ctorch\n", type, "\n", pickled(key),
                            pickled("cpu"), count);
    return tensor;
  };
  const std::string wrong = "'w' has a storage as its storage";
  EXPECT_EQ(load(with("storage", "FloatStorage", "0", pickled(6))).numel(), 6);
  expect_refused(with("module", "FloatStorage", "0", pickled(6)), wrong);
  expect_refused(with("storage", "FloatStorage", "0", pickled("6")), wrong);
  expect_refused(with("storage", "FloatStorage", "0", pickled(7)),
                 "the entry archive/data/0 holds 6 elements instead of 7");
  expect_refused(with("storage", "FloatStorage", "0", pickled(-1)),
                 "the entry archive/data/0 holds 6 elements instead of -1");
  expect_refused(with("storage", "FloatStorage", "1", pickled(6)),
                 "the entry archive/data/1 is missing");
  expect_refused(with("storage", "QInt8Storage", "0", pickled(6)),
                 "'w' is stored in a torch.QInt8Storage; complex and quantized "
                 "tensors cannot be read");
}

// The count is the fifth part. Strings that were dropped leave their bytes, 2
// as in an integer's kind, where a reader past the end of four parts looks.
TEST_F(MadeState, AStorageWithoutItsCountIsRefused) {
  std::string dropped;
  for (int i = 0; i < 8; ++i) dropped += pickled(std::string(295, '\2'));
  dropped += std::string(8, '0');
  PickledTensor tensor;
  tensor.storage = pickled("storage") + "ctorch\nFloatStorage\n" +
                   pickled("0") + pickled("cpu");
  expect_refused(dropped + pickled_entry("w", tensor.text()),
                 "'w' has a storage as its storage");
}

TEST_F(MadeState, OnlyKnownFunctionsBuildTensors) {
  PickledTensor tensor;
  tensor.builder = "torch._utils\n_rebuild_tensor";
  EXPECT_EQ(load(tensor).numel(), 6);
  tensor.builder = "torch._utils\n_rebuild_qtensor";
  expect_refused(tensor,
                 "'w' is built by torch._utils._rebuild_qtensor, which is not "
                 "supported; save plain, dense tensors");
  const std::string parameter = "ctorch._utils\n_rebuild_parameter\n(";
  const std::string plain = PickledTensor().text();
  EXPECT_EQ(load(pickled_entry("w", parameter + plain + "tR")).size(), 1u);
  expect_refused(
      pickled_entry("w", parameter + parameter + plain + "tRtR"),
      "'w' is built by torch._utils._rebuild_parameter, which is not "
      "supported; save plain, dense tensors");
  expect_refused(pickled_entry("w", "cos\nsystem\n(" + pickled("ls") + "tR"),
                 "the entry of the string 'w' is an object of os.system, not a "
                 "tensor; save model.state_dict() in Python");
}

TEST_F(MadeState, TensorsOfOneStorageShareMemory) {
  const std::string tensor = PickledTensor().text();
  const auto loaded =
      load("}(" + pickled("a") + tensor + pickled("b") + tensor + "u");
  loaded[0].second.fill_(8);
  EXPECT_EQ(loaded[1].second.sum().item<float>(), 48);
}

TEST_F(MadeState, AKeySelectsAStateOfACheckpoint) {
  const std::string state = pickled_entry("w", PickledTensor().text());
  const std::string checkpoint =
      "}(" + pickled("model") + state + pickled("epoch") + pickled(3) +
      pickled("ema") + state + pickled("none") + "}u";
  EXPECT_EQ(load(checkpoint, "ema").at(0).first, "w");
  const std::string keys = "; keys that hold a state: model, ema";
  const auto error = [&](const std::string& key) {
    return error_of<IoError>([&] { load(checkpoint, key); });
  };
  const std::string begin = path_.string() + ": byte 0: ";
  EXPECT_EQ(error("optimizer"), begin + "there is no key 'optimizer'" + keys);
  EXPECT_EQ(error("epoch"), begin +
                                "the file holds the integer 3 instead of a "
                                "dictionary of tensors" +
                                keys);
  EXPECT_EQ(error(""), begin +
                           "the entry of the string 'model' is a dictionary, "
                           "not a tensor" +
                           keys);
  EXPECT_TRUE(load(checkpoint, "none").empty());
  expect_refused("N"s,
                 "the file holds None instead of a dictionary of tensors; save "
                 "model.state_dict() in Python");
}

// torch.save names the byte order, and the folder after the file.
TEST_F(MadeState, FilesOfOtherMachinesAreRead) {
  const std::string floats("\0\0\x80\x3f\0\0\0\x40", 8);  // 1, 2
  const std::string swapped("\x3f\x80\0\0\x40\0\0\0", 8);
  PickledTensor tensor = made_view(0, {2}, {1});
  tensor.storage = pickled("storage") + "ctorch\nFloatStorage\n" +
                   pickled("0") + pickled("cpu") + pickled(2);
  const std::string pickle = "\x80\2" + pickled_entry("w", tensor.text()) + ".";
  for (const bool is_big : {false, true}) {
    formats::ZipWriter archive;
    archive.add("model/data.pkl", {pickle});
    archive.add("model/data/0", {is_big ? swapped : floats});
    archive.add("model/byteorder", {is_big ? "big" : "little"});
    archive.save(path_);
    EXPECT_TRUE(load_state_dict_file(path_).at(0).second.equal(
        at::tensor({1.0f, 2.0f})));
  }
}

TEST_F(MadeState, AnyNonzeroByteIsTrue) {
  PickledTensor tensor = made_view(0, {3}, {1});
  tensor.storage = pickled("storage") + "ctorch\nBoolStorage\n" + pickled("0") +
                   pickled("cpu") + pickled(3);
  formats::ZipWriter archive;
  const std::string pickle = "\x80\2" + pickled_entry("w", tensor.text()) + ".";
  archive.add("archive/data.pkl", {pickle});
  archive.add("archive/data/0", {std::string_view("\0\1\2", 3)});
  archive.save(path_);
  EXPECT_TRUE(load_state_dict_file(path_).at(0).second.equal(
      at::tensor({0, 1, 1}).to(at::kBool)));
}

TEST_F(MadeState, ArchivesOfOtherProgramsAreRefused) {
  expect_throws<IoError>([&] { load_state_dict_file(path_); },
                         {path_.string()});
  formats::ZipWriter archive;
  archive.add("archive/data.txt", {"x"});
  archive.save(path_);
  EXPECT_EQ(error_of<IoError>([&] { load_state_dict_file(path_); }),
            path_.string() +
                ": byte 0: the archive has no data.pkl; it was "
                "not written by torch.save");
}

}  // namespace
}  // namespace sheaf::tensor
