#include <gtest/gtest.h>

#include "sheaf/formats/archives/zip.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/python.hpp"
#include "tests/tensor/files/expect_same.hpp"
#include "tests/tensor/files/state_cases.hpp"

namespace sheaf::tensor {
namespace {

// What is loaded after `state` was saved.
StateDict saved_and_loaded(const StateDict& state) {
  const TemporaryFolder folder;
  save_state_dict(folder.path() / "state.pt", state);
  return load_state_dict_file(folder.path() / "state.pt");
}

TEST(StateDictWrite, EveryKindOfTensorComesBack) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "state.pt";
  const auto state = various_tensors();
  save_state_dict(path, state);
  const auto loaded = load_state_dict_file(path);
  expect_same(loaded, state);
  save_state_dict(path, {});
  EXPECT_TRUE(load_state_dict_file(path).empty());
}

TEST(StateDictWrite, SharedMemoryStaysShared) {
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

// Elements 4 to 7 and 1 to 4 of one tensor.
TEST(StateDictWrite, TensorsThatOverlapInPartShareAStorage) {
  const auto base = at::arange(9, at::kFloat);
  const StateDict state{{"end", base.narrow(0, 4, 4)},
                        {"begin", base.narrow(0, 1, 4)}};
  const auto loaded = saved_and_loaded(state);
  expect_same(loaded, state);
  loaded[0].second[0] = 77;
  EXPECT_EQ(loaded[1].second[3].item<float>(), 77);
  EXPECT_EQ(loaded[0].second.storage().nbytes(), 7 * sizeof(float));
}

TEST(StateDictWrite, NeighborsInMemoryAreSeparate) {
  const auto base = at::arange(6, at::kFloat);
  const auto loaded = saved_and_loaded(
      {{"left", base.narrow(0, 0, 3)}, {"right", base.narrow(0, 3, 3)}});
  EXPECT_EQ(loaded[1].second.storage().nbytes(), 3 * sizeof(float));
  EXPECT_FALSE(loaded[0].second.is_alias_of(loaded[1].second));
}

TEST(StateDictWrite, MemoryWithTwoTypesIsWrittenTwice) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "state.pt";
  const auto floats = at::arange(4, at::kFloat);
  const StateDict state{{"f", floats}, {"i", floats.view(at::kInt)}};
  save_state_dict(path, state);
  expect_same(load_state_dict_file(path), state);
}

// The memory of a negated view holds the original values.
TEST(StateDictWrite, NegatedViewsAreSavedAsTheyRead) {
  const auto values = at::arange(3, at::kFloat);
  expect_same(saved_and_loaded({{"v", values}, {"n", at::_neg_view(values)}}),
              {{"v", values}, {"n", -values}});
}

TEST(StateDictWrite, SizesAbove31Bits) {
  constexpr std::int64_t kWide = (std::int64_t{1} << 31) + 5;
  const auto loaded = saved_and_loaded({{"w", at::empty({0, kWide})}});
  EXPECT_EQ(loaded[0].second.sizes(), (std::vector<std::int64_t>{0, kWide}));
}

TEST(StateDictWrite, GradientsAreNotSaved) {
  const auto weight = at::ones({2}).requires_grad_();
  EXPECT_FALSE(saved_and_loaded({{"w", weight * 2}})[0].second.requires_grad());
}

// Storages are numbered in the order of the state, not by address.
TEST(StateDictWrite, EqualStatesGiveEqualFiles) {
  const TemporaryFolder folder;
  const auto base = at::arange(8, at::kFloat);
  const auto low = base.narrow(0, 0, 3), high = base.narrow(0, 4, 3);
  save_state_dict(folder.path() / "a", {{"x", low}, {"y", high}});
  const auto other = base.flip(0);
  other.narrow(0, 4, 3).copy_(low);
  other.narrow(0, 0, 3).copy_(high);
  save_state_dict(folder.path() / "b",
                  {{"x", other.narrow(0, 4, 3)}, {"y", other.narrow(0, 0, 3)}});
  const formats::ZipReader a(folder.path() / "a"), b(folder.path() / "b");
  std::vector<std::string> names;
  for (const formats::ZipEntry& entry : a.entries()) {
    names.push_back(entry.name);
    EXPECT_EQ(a.read(entry).bytes(), b.read(*b.find(entry.name)).bytes())
        << entry.name;
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"archive/data.pkl", "archive/data/0",
                                      "archive/data/1", "archive/version"}));
  EXPECT_EQ(a.read(*a.find("archive/version")).bytes(), "3\n");
  EXPECT_EQ(a.read(*a.find("archive/data/0")).bytes(),
            std::string(static_cast<const char*>(low.data_ptr()), 12));
}

TEST(StateDictWrite, RefusesWhatCannotBeSaved) {
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
  expect_throws<UsageError>(
      [&] {
        save_state_dict(path, {{"s", at::ones({2}).to_sparse()}});
      },
      {"'s'", "sparse"});
  EXPECT_TRUE(folder.names().empty());
}

TEST(StateDictWrite, PythonReadsOurs) {
  SHEAF_NEEDS_PYTHON("torch");
  const TemporaryFolder folder;
  save_state_dict(folder.path() / "various.pt", various_tensors());
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

}  // namespace
}  // namespace sheaf::tensor
