#include "sheaf/tensor/files/numpy.hpp"

#include <gtest/gtest.h>

#include "sheaf/formats/archives/zip.hpp"
#include "sheaf/formats/arrays/npy.hpp"
#include "sheaf/tensor/groups/memory.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/formats/bytes/damage.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/python.hpp"

namespace sheaf::tensor {
namespace {

bool is_same(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         at::equal(a, b);
}

// Values that all types can represent; bools are true for odd values.
at::Tensor counting(at::IntArrayRef shape, DType dtype) {
  const auto flat = at::arange(at::empty(shape).numel(), at::kLong).view(shape);
  if (dtype == DType::kBool) return flat.remainder(2).to(at::kBool);
  return flat.to(scalar_type_of(dtype));
}

TEST(Npy, EveryTypeAndShapeComesBack) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "a.npy";
  for (int type = 0; type < kDTypeCount; ++type) {
    for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{},
                                                   {0},
                                                   {5},
                                                   {2, 3},
                                                   {4, 0, 2},
                                                   {1, 2, 3, 4}}) {
      const auto tensor = counting(shape, static_cast<DType>(type));
      save_npy(path, tensor);
      EXPECT_TRUE(is_same(load_npy(path), tensor))
          << name_of(static_cast<DType>(type)) << tensor.sizes();
    }
  }
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a.npy"});
}

TEST(Npy, StridesAndGradientsDoNotMatter) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "a.npy";
  const auto base = counting({4, 6}, DType::kF32);
  for (const auto& view :
       {base.t(), base.slice(1, 1, 6, 2), base[1].expand({3, 6}),
        base.clone().requires_grad_()}) {
    save_npy(path, view);
    EXPECT_TRUE(is_same(load_npy(path), view));
    EXPECT_TRUE(load_npy(path).is_contiguous());
  }
}

TEST(Npy, RefusesWhatCannotBeSaved) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "a.npy";
  expect_throws<UsageError>([&] { save_npy(path, at::Tensor()); },
                            {"undefined"});
  expect_throws<UsageError>([&] { save_npy(path, at::eye(2).to_sparse()); },
                            {"to_dense"});
  expect_throws<UsageError>(
      [&] { save_npy(path, at::zeros({2}, at::kComplexFloat)); }, {"Complex"});
  expect_throws<IoError>([&] { load_npy(path); }, {path.string()});
  EXPECT_TRUE(folder.names().empty());
}

TEST(Npy, NumpyReadsOurs) {
  SHEAF_NEEDS_PYTHON("numpy");
  const TemporaryFolder folder;
  NamedTensors arrays;
  for (int type = 0; type < kDTypeCount; ++type) {
    const auto dtype = static_cast<DType>(type);
    arrays.emplace_back(std::string(name_of(dtype)), counting({2, 3}, dtype));
    save_npy(folder.path() / (std::string(name_of(dtype)) + ".npy"),
             counting({2, 3}, dtype));
  }
  arrays.emplace_back("größe", at::scalar_tensor(7.5));
  arrays.emplace_back("empty", at::zeros({0, 4}));
  save_npz(folder.path() / "all.npz", arrays);
  run_python(python, folder.path(), R"(
import numpy as np, zipfile
names = dict(f64='f8', f32='f4', f16='f2', i64='i8', i32='i4', i16='i2',
             i8='i1', u8='u1', bool='?')
wanted = np.arange(6).reshape(2, 3)
archive = np.load('all.npz')
for name, code in names.items():
    expected = (wanted % 2 if code == '?' else wanted).astype(code)
    for got in (np.load(name + '.npy'), archive[name]):
        assert got.dtype == np.dtype(code), (name, got.dtype)
        assert np.array_equal(got, expected), (name, got)
bf16 = archive['bf16'].view(np.uint16).astype(np.uint32) << 16
assert np.array_equal(bf16.view(np.float32), wanted), bf16
assert archive['größe'].shape == () and archive['größe'] == 7.5
assert archive['empty'].shape == (0, 4)
assert zipfile.ZipFile('all.npz').testzip() is None
)");
}

TEST(Npy, ReadsNumpys) {
  SHEAF_NEEDS_PYTHON("numpy");
  const TemporaryFolder folder;
  run_python(python, folder.path(), R"(
import numpy as np
from numpy.lib import format
data = np.arange(24).reshape(2, 3, 4)
np.save('c.npy', data)
np.save('fortran.npy', np.asfortranarray(data.astype('f4')))
for code in ('>f8', '>f4', '>f2', '>i8', '>i4', '>i2', '|i1', '|u1'):
    np.save('order_' + code[1:] + '.npy', data.astype(code))
np.save('big_fortran.npy', np.asfortranarray(data.astype('>i2')))
for version in ((1, 0), (2, 0), (3, 0)):
    with open('version_%d.npy' % version[0], 'wb') as file:
        format.write_array(file, data, version=version)
np.save('scalar.npy', np.float64(-0.1))
np.save('none.npy', np.zeros((3, 0), '?'))
arrays = dict(a=data.astype('f4'), b=np.arange(5) > 2, c=np.zeros(()),
              d=np.zeros((300, 300)))
np.savez('stored.npz', **arrays)
np.savez_compressed('packed.npz', **arrays)
np.save('unsigned.npy', data.astype('u4'))
np.save('fields.npy', np.zeros(2, [('x', 'f4'), ('y', 'i4')]))
)");
  const auto load = [&](const std::string& name) {
    return load_npy(folder.path() / (name + ".npy"));
  };
  const auto wanted = counting({2, 3, 4}, DType::kI64);
  EXPECT_TRUE(is_same(load("c"), wanted));
  EXPECT_TRUE(is_same(load("fortran"), wanted.to(at::kFloat)));
  EXPECT_TRUE(is_same(load("big_fortran"), wanted.to(at::kShort)));
  for (const auto& [code, type] : {std::pair{"f8", at::kDouble},
                                   {"f4", at::kFloat},
                                   {"f2", at::kHalf},
                                   {"i8", at::kLong},
                                   {"i4", at::kInt},
                                   {"i2", at::kShort},
                                   {"i1", at::kChar},
                                   {"u1", at::kByte}})
    EXPECT_TRUE(is_same(load(concat("order_", code)), wanted.to(type))) << code;
  for (const auto* version : {"version_1", "version_2", "version_3"})
    EXPECT_TRUE(is_same(load(version), wanted)) << version;
  EXPECT_TRUE(is_same(load("scalar"), at::scalar_tensor(-0.1, at::kDouble)));
  EXPECT_TRUE(is_same(load("none"), at::zeros({3, 0}, at::kBool)));
  for (const auto* name : {"stored.npz", "packed.npz"}) {
    const auto arrays = load_npz(folder.path() / name);
    ASSERT_EQ(arrays.size(), 4u);
    EXPECT_EQ(arrays[1].first, "b");
    EXPECT_TRUE(is_same(arrays[0].second, wanted.to(at::kFloat)));
    EXPECT_TRUE(is_same(arrays[1].second, at::arange(5) > 2));
    EXPECT_TRUE(is_same(arrays[2].second, at::zeros({}, at::kDouble)));
    EXPECT_TRUE(is_same(arrays[3].second, at::zeros({300, 300}, at::kDouble)));
  }
  expect_throws<IoError>([&] { load("unsigned"); }, {"unsigned.npy", "<u4"});
  expect_throws<IoError>([&] { load("fields"); }, {"several fields"});
}

TEST(Npy, AnyBoolByteIsABool) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "a.npy";
  save_npy(path, at::ones({3}, at::kBool));
  std::string bytes = read_file(path);
  bytes.back() = 2;
  bytes[bytes.size() - 2] = 0;
  formats::write_bytes(path, bytes);
  const auto loaded = load_npy(path);
  EXPECT_EQ(static_cast<const unsigned char*>(loaded.data_ptr())[2], 1);
  EXPECT_FALSE(loaded[1].item<bool>());
}

TEST(Npy, DamagedFilesAreErrors) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "a.npy";
  save_npy(path, counting({2, 3}, DType::kI32));
  const auto refused = formats::damage(path, [&] { load_npy(path); });
  // At least magic, version, length and the words of the dictionary.
  EXPECT_GT(refused, 3 * 50u);
  formats::write_bytes(path, read_file(path) + "x");
  expect_throws<IoError>([&] { load_npy(path); }, {"byte 152", "1 bytes"});
}

// Prepends magic, version and length to a dictionary.
std::string with_npy_begin(const std::string& text) {
  std::string bytes("\x93NUMPY\1\0", 8);
  formats::put_u16(bytes, static_cast<std::uint16_t>(text.size()));
  return bytes + text;
}

TEST(Npy, AHugeShapeIsRefused) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "a.npy";
  const std::string text =
      "{'descr': '<f8', 'fortran_order': False, "
      "'shape': (4611686018427387904, 4), }";
  formats::write_bytes(path, with_npy_begin(text));
  expect_throws<IoError>([&] { load_npy(path); }, {"larger than any memory"});
}

// 360 TB, which must not be passed to the allocator.
TEST(Npy, AShapeLargerThanTheFileIsRefused) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "a.npy";
  for (const char* order : {"False", "True"}) {
    formats::write_bytes(
        path, with_npy_begin(concat("{'descr': '<f4', 'fortran_order': ", order,
                                    ", 'shape': (30000000, 3000000), }")) +
                  "few");
    expect_throws<IoError>(
        [&] { load_npy(path); },
        {path.string(), "360000000000000 bytes, only 3 are left"});
  }
}

TEST(Npy, TooManyAxesAreRefused) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "a.npy";
  std::string shape;
  for (int i = 0; i < 65; ++i) shape += "1, ";
  formats::write_bytes(
      path, with_npy_begin(concat("{'descr': '|u1', 'fortran_order': ",
                                  "False, 'shape': (", shape, "), }")) +
                "x");
  expect_throws<IoError>([&] { load_npy(path); },
                         {path.string(), "more than 64 axes"});
}

TEST(Npz, ComesBackInOrder) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "a.npz";
  const NamedTensors arrays{{"z", counting({3}, DType::kF16)},
                            {"a/b", counting({2, 2}, DType::kBF16)}};
  save_npz(path, arrays);
  const auto loaded = load_npz(path);
  ASSERT_EQ(loaded.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(loaded[i].first, arrays[i].first);
    EXPECT_TRUE(is_same(loaded[i].second, arrays[i].second));
  }
  save_npz(path, {});
  EXPECT_TRUE(load_npz(path).empty());
  expect_throws<UsageError>(
      [&] {
        save_npz(path, {arrays[0], arrays[0]});
      },
      {"z.npy", "differ"});
}

TEST(Npz, NamesWithoutTheirSuffixDiffer) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "a.npz";
  const std::string array = formats::make_npy_header(DType::kU8, {0});
  formats::ZipWriter archive;
  archive.add("x", {array});
  archive.save(path);
  EXPECT_EQ(load_npz(path).at(0).first, "x");
  archive.add("x.npy", {array});
  archive.save(path);
  expect_throws<IoError>([&] { load_npz(path); },
                         {path.string(), "two arrays have the name 'x'"});
}

TEST(Npz, DamagedFilesAreErrors) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "a.npz";
  save_npz(path, {{"x", counting({2}, DType::kF32)}});
  const auto refused = formats::damage(path, [&] { load_npz(path); });
  // The checksum covers every byte of the array.
  EXPECT_GT(refused, 3 * (128 + 8u));
}

TEST(Npz, DamagedCompressedFilesAreErrors) {
  SHEAF_NEEDS_PYTHON("numpy");
  const TemporaryFolder folder;
  run_python(python, folder.path(),
             "import numpy\n"
             "numpy.savez_compressed('a.npz', x=numpy.arange(3))");
  const auto path = folder.path() / "a.npz";
  EXPECT_GT(formats::damage(path, [&] { load_npz(path); }), 100u);
}

// The limit of 4 GiB is lowered to test large archives.
TEST(Zip, LargeArchivesRoundTrip) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "a.zip";
  for (const std::uint64_t limit : {0, 4, 100}) {
    formats::ZipWriter writer(limit);
    writer.add("one", {"ab", "", "cdef"});
    writer.add("two", {});
    writer.add("three", {"g"});
    writer.save(path);
    const formats::ZipReader reader(path);
    ASSERT_EQ(reader.entries().size(), 3u);
    EXPECT_EQ(reader.read(*reader.find("one")).bytes(), "abcdef");
    EXPECT_EQ(reader.read(*reader.find("two")).bytes(), "");
    EXPECT_EQ(reader.read(*reader.find("three")).bytes(), "g");
    EXPECT_EQ(reader.find("four"), nullptr);
    if (const auto python = python_with("zipfile"); !python.empty())
      run_python(python, folder.path(), R"(
import zipfile
archive = zipfile.ZipFile('a.zip')
assert archive.testzip() is None
assert [archive.read(n) for n in archive.namelist()] == [b'abcdef', b'', b'g']
)");
  }
}

}  // namespace
}  // namespace sheaf::tensor
