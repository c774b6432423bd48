#include "sheaf/tensor/files/state_dict.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "damage.hpp"
#include "sheaf/tensor/files/zip.hpp"
#include "sheaf/tensor/groups/memory.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/python.hpp"
#include "tests/tensor/files/expect_same.hpp"

namespace sheaf::tensor {
namespace {

torch::nn::Sequential small_network() {
  return torch::nn::Sequential(
      torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 2, 3).bias(false)),
      torch::nn::BatchNorm2d(2), torch::nn::ReLU(), torch::nn::Linear(3, 2));
}

// One tensor of each type, and tensors with special strides or shared memory.
StateDict various() {
  StateDict state;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    state.emplace_back(std::string(name_of(dtype)),
                       at::arange(6).view({2, 3}).to(scalar_type_of(dtype)));
  }
  const auto base = at::arange(24, at::kFloat).view({4, 6});
  state.emplace_back("scalar", at::scalar_tensor(-1.5));
  state.emplace_back("empty", at::zeros({0, 3}));
  state.emplace_back("transposed", at::arange(6.).view({2, 3}).t());
  state.emplace_back("sliced", at::arange(20.).slice(0, 1, 20, 3));
  state.emplace_back("expanded", at::ones({1, 3}).expand({4, 3}));
  state.emplace_back("whole", base);
  state.emplace_back("row", base[2]);
  state.emplace_back("column", base.select(1, 5));
  return state;
}

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

TEST(StateDict, EveryKindOfTensorComesBack) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "state.pt";
  const auto state = various();
  save_state_dict(path, state);
  const auto loaded = load_state_dict_file(path);
  expect_same(loaded, state);
  save_state_dict(path, {});
  EXPECT_TRUE(load_state_dict_file(path).empty());
}

TEST(StateDict, SharedMemoryStaysShared) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "state.pt";
  const auto base = at::zeros({1000, 10});
  save_state_dict(path, {{"a", base}, {"b", base[1]}, {"tied", base}});
  EXPECT_LT(std::filesystem::file_size(path), 2 * base.nbytes());
  const auto loaded = load_state_dict_file(path);
  loaded[0].second.fill_(3);
  EXPECT_EQ(loaded[1].second.sum().item<double>(), 30);
  EXPECT_EQ(loaded[2].second.sum().item<double>(), 30000);
  // Slices of a large storage are saved without the rest of it.
  save_state_dict(path, {{"b", base[1]}, {"c", base[3]}});
  EXPECT_LT(std::filesystem::file_size(path), 2000u);
}

TEST(StateDict, MemoryWithTwoTypesIsWrittenTwice) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "state.pt";
  const auto floats = at::arange(4, at::kFloat);
  const StateDict state{{"f", floats}, {"i", floats.view(at::kInt)}};
  save_state_dict(path, state);
  expect_same(load_state_dict_file(path), state);
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

TEST(StateDict, RefusesWhatCannotBeSaved) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "state.pt";
  expect_throws<UsageError>(
      [&] {
        save_state_dict(path, {{"w", at::Tensor()}});
      },
      {"'w'"});
  expect_throws<UsageError>(
      [&] {
        save_state_dict(path, {{"w", at::zeros({1}, at::kComplexFloat)}});
      },
      {"Complex"});
  expect_throws<IoError>([&] { load_state_dict_file(path); }, {path.string()});
}

TEST(StateDict, PythonReadsOurs) {
  SHEAF_NEEDS_PYTHON("torch");
  const TemporaryFolder folder;
  save_state_dict(folder.path() / "various.pt", various());
  save_state_dict(folder.path() / "network.pt", state_dict(*small_network()));
  run_python(python, folder.path(), R"(
import torch
state = torch.load('various.pt')
types = dict(f64=torch.float64, f32=torch.float32, f16=torch.float16,
             bf16=torch.bfloat16, i64=torch.int64, i32=torch.int32,
             i16=torch.int16, i8=torch.int8, u8=torch.uint8, bool=torch.bool)
wanted = torch.arange(6).view(2, 3)
for name, dtype in types.items():
    assert state[name].dtype == dtype, name
    assert torch.equal(state[name], wanted.to(dtype)), name
base = torch.arange(24.).view(4, 6)
for name, tensor in dict(
        scalar=torch.tensor(-1.5), empty=torch.zeros(0, 3),
        transposed=torch.arange(6.).view(2, 3).t(),
        sliced=torch.arange(20.)[1::3], expanded=torch.ones(4, 3),
        whole=base, row=base[2], column=base[:, 5]).items():
    assert torch.equal(state[name], tensor), name
state['whole'].fill_(7)
assert state['row'].sum() == 42 and state['column'].sum() == 28
model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3, bias=False),
                            torch.nn.BatchNorm2d(2), torch.nn.ReLU(),
                            torch.nn.Linear(3, 2))
print(model.load_state_dict(torch.load('network.pt')))
)");
}

TEST(StateDict, ReadsPythons) {
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
  expect_same(loaded, various());
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

TEST(StateDict, DamageIsTold) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "state.pt";
  save_state_dict(path, {{"w", at::arange(3.)}});
  EXPECT_GT(damage(path, [&] { load_state_dict_file(path); }), 600u);
}

std::string pickle_of(const std::filesystem::path& path) {
  const ZipReader archive(path);
  return archive.read(*archive.find("archive/data.pkl"));
}

// Writes an archive with the given pickle and one storage of 6 floats.
void write_archive(const std::filesystem::path& path,
                   const std::string& pickle) {
  const std::string floats(24, '\0');
  ZipWriter archive;
  archive.add("archive/data.pkl", {pickle});
  archive.add("archive/data/0", {floats});
  archive.save(path);
}

// Each byte of the pickle is changed, with a valid checksum.
TEST(StateDict, DamagedPicklesAreTold) {
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
      refused += is_refused(path, [&] { load_state_dict_file(path); });
    }
  }
  EXPECT_GT(refused, 3 * pickle.size());
}

}  // namespace
}  // namespace sheaf::tensor
