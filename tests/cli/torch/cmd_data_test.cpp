// sheaf data, a command of sheaf-torch.

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "tests/cli/run_sheaf.hpp"
#include "tests/support/environment.hpp"

namespace sheaf::cli {
namespace {

class DataCommand : public RunSheaf {
 protected:
  void SetUp() override {
    RunSheaf::SetUp();
    const std::filesystem::path program = sheaf_program();
    if (!std::filesystem::exists(program.parent_path() / "sheaf-torch"))
      GTEST_SKIP() << "built without libtorch";
  }
};

TEST_P(DataCommand, ListsShapesAndSizes) {
  const test::ScopedVariable root("SHEAF_DATA", folder_.string());
  const RunResult result = run({"data", "list", "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
  std::map<std::string, nlohmann::json> rows;
  for (const std::string& line : lines_of(result.out)) {
    const auto row = nlohmann::json::parse(line);
    rows[row["dataset"]] = row;
  }
  ASSERT_EQ(rows.size(), 4u) << result.out;
  EXPECT_EQ(rows["mnist"]["shape"], "1x28x28");
  EXPECT_EQ(rows["cifar10"]["shape"], "3x32x32");
  EXPECT_EQ(rows["cifar10"]["classes"], 10);
  EXPECT_EQ(rows["cifar10"]["train"], 50000);
  EXPECT_EQ(rows["cifar10"]["test"], 10000);
}

INSTANTIATE_TEST_SUITE_P(Mpi, DataCommand, testing::Values("mpirun"),
                         mpi_test_name);

}  // namespace
}  // namespace sheaf::cli
