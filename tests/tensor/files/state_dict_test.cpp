#include "sheaf/tensor/files/state_dict.hpp"

#include <gtest/gtest.h>

#include "sheaf/formats/archives/zip.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/formats/archives/made_archive.hpp"
#include "tests/formats/bytes/damage.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/python.hpp"
#include "tests/tensor/files/expect_same.hpp"
#include "tests/tensor/files/state_cases.hpp"

namespace sheaf::tensor {
namespace {

using formats::pickled_entry;
using formats::pickled_storage;
using formats::pickled_view;
using formats::PickledTensor;

TEST(StateDict, NamesAndOrderArePythons) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : state_dict(*small_network())) {
    names.push_back(name);
    EXPECT_FALSE(tensor.requires_grad());
  }
  const std::vector<std::string> wanted{
      "0.weight",       "1.weight",      "1.bias",
      "1.running_mean", "1.running_var", "1.num_batches_tracked",
      "3.weight",       "3.bias"};
  EXPECT_EQ(names, wanted);
}

TEST(StateDict, SharesTheMemoryOfTheModule) {
  const auto network = small_network();
  for (const auto& [name, tensor] : state_dict(*network)) tensor.zero_();
  for (const auto& parameter : network->parameters())
    EXPECT_EQ(parameter.abs().max().item<double>(), 0);
}

TEST(StateDict, GoesThroughAFile) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "state.pt";
  const auto from = small_network();
  auto to = small_network();
  save_state_dict(path, state_dict(*from));
  load_state_dict(*to, load_state_dict_file(path));
  expect_same(state_dict(*from), state_dict(*to));
  for (const auto& parameter : to->parameters())
    EXPECT_TRUE(parameter.is_leaf() && parameter.requires_grad());
  EXPECT_EQ(folder.names(), std::vector<std::string>{"state.pt"});
}

// The module keeps its types.
TEST(StateDict, ValuesAreConverted) {
  auto network = small_network();
  auto state = state_dict(*small_network());
  for (auto& [name, tensor] : state)
    tensor = at::full_like(tensor, 3).to(at::kHalf);
  load_state_dict(*network, state);
  for (const auto& [name, tensor] : state_dict(*network)) {
    EXPECT_TRUE((tensor == 3).all().item<bool>()) << name;
    EXPECT_EQ(tensor.scalar_type(),
              name == "1.num_batches_tracked" ? at::kLong : at::kFloat);
  }
}

TEST(StateDict, WhatDoesNotFitIsNamed) {
  auto network = small_network();
  const auto before = at::clone(network->parameters()[0]);
  auto state = state_dict(*small_network());
  state[0].second = at::zeros_like(state[0].second);
  state.erase(state.begin() + 3);
  state[1].second = at::zeros({5});
  state.emplace_back("new", at::zeros({1}));
  state.emplace_back("new", at::zeros({1}));
  expect_throws<UsageError>(
      [&] { load_state_dict(*network, state); },
      {"missing: 1.running_mean", "unexpected: new",
       "1.weight is [5], the module's is [2]", "given twice: new"});
  EXPECT_TRUE(at::equal(network->parameters()[0], before));
}

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

std::string pickle_in(const std::filesystem::path& path) {
  const formats::ZipReader archive(path);
  return std::string(archive.read(*archive.find("archive/data.pkl")).bytes());
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
  const std::string pickle = pickle_in(good);
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

class MadeState : public testing::Test {
 protected:
  // Loads a file whose pickle leaves the result of `program` on the stack.
  StateDict load(const std::string& program) {
    write_archive(path_, formats::pickle_of(program));
    return load_state_dict_file(path_);
  }
  at::Tensor load(const PickledTensor& tensor) {
    return load(pickled_entry("w", tensor.text())).at(0).second;
  }

  TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "state.pt";
};

using Axes = std::vector<std::int64_t>;

TEST_F(MadeState, ViewsLieInsideOfTheStorage) {
  const auto floats = at::arange(6, at::kFloat);
  EXPECT_TRUE(load(pickled_view(0, {6}, {1})).equal(floats));
  EXPECT_TRUE(load(pickled_view(1, {2, 2}, {1, 3}))
                  .equal(floats.as_strided({2, 2}, {1, 3}, 1)));
  EXPECT_TRUE(load(pickled_view(5, {}, {})).equal(floats[5]));
  EXPECT_TRUE(load(pickled_view(5, {4}, {0})).equal(floats[5].expand({4})));
  EXPECT_EQ(load(pickled_view(9, {3, 0}, {1, 1})).sizes(), (Axes{3, 0}));
}

TEST_F(MadeState, TensorsOfOneStorageShareMemory) {
  const std::string tensor = PickledTensor().text();
  const auto loaded = load("}(" + formats::pickled("a") + tensor +
                           formats::pickled("b") + tensor + "u");
  loaded[0].second.fill_(8);
  EXPECT_EQ(loaded[1].second.sum().item<float>(), 48);
}

// torch.save names the byte order, and the folder after the file.
TEST_F(MadeState, FilesOfOtherMachinesAreRead) {
  const std::string floats("\0\0\x80\x3f\0\0\0\x40", 8);  // 1, 2
  const std::string swapped("\x3f\x80\0\0\x40\0\0\0", 8);
  PickledTensor tensor = pickled_view(0, {2}, {1});
  tensor.storage = pickled_storage("FloatStorage", "0", 2);
  const std::string pickle =
      formats::pickle_of(pickled_entry("w", tensor.text()));
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
  PickledTensor tensor = pickled_view(0, {3}, {1});
  tensor.storage = pickled_storage("BoolStorage", "0", 3);
  formats::write_bytes(path_,
                       formats::archive_of(pickled_entry("w", tensor.text()),
                                           std::string("\0\1\2", 3)));
  EXPECT_TRUE(load_state_dict_file(path_).at(0).second.equal(
      at::tensor({0, 1, 1}).to(at::kBool)));
  EXPECT_EQ(static_cast<const char*>(
                load_state_dict_file(path_).at(0).second.data_ptr())[2],
            1);
}

TEST_F(MadeState, BadViewsAreNamedWithTheFile) {
  expect_throws<IoError>(
      [&] { load(pickled_view(1, {6}, {1})); },
      {path_.string() + ": byte 0: 'w' reaches beyond its storage"});
}

}  // namespace
}  // namespace sheaf::tensor
