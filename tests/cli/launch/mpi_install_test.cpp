#include "sheaf/cli/launch/mpi_install.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"

namespace sheaf::cli {
namespace {

TEST(MpiInstall, KnowsTheFamiliesByTheirVersion) {
  const auto open_mpi = parse_mpi_version(
      "mpirun", "mpirun (Open MPI) 4.1.4\n\nReport bugs to http://x\n");
  EXPECT_EQ(open_mpi.kind, MpiKind::kOpenMpi);
  EXPECT_EQ(open_mpi.name(), "Open MPI 4.1.4");
  const auto rte = parse_mpi_version("orterun", "orterun (OpenRTE) 3.1.3\n");
  EXPECT_EQ(rte.kind, MpiKind::kOpenMpi);
  EXPECT_EQ(rte.version, "3.1.3");
  const auto mpich = parse_mpi_version(
      "mpiexec", "HYDRA build details:\n    Version:           4.0.2\n");
  EXPECT_EQ(mpich.kind, MpiKind::kMpich);
  EXPECT_EQ(mpich.name(), "MPICH 4.0.2");
  const auto intel = parse_mpi_version(
      "mpirun", "Intel(R) MPI Library for Linux* OS, Version 2021.5 Build 1\n");
  EXPECT_EQ(intel.kind, MpiKind::kMpich);
  EXPECT_EQ(intel.version, "2021.5");
  EXPECT_THROW(parse_mpi_version("mpirun", "GNU bash, version 5\n"),
               UsageError);
}

TEST(FindExecutable, SearchesAsAShellDoes) {
  EXPECT_EQ(find_executable("/bin/sh"), "/bin/sh");
  EXPECT_NE(find_executable("sh"), "");
  EXPECT_EQ(find_executable("no-such-program"), "");
  EXPECT_EQ(find_executable("/bin"), "");
  EXPECT_EQ(find_executable("/etc/passwd"), "");
  EXPECT_EQ(find_executable(""), "");
  EXPECT_NO_THROW(check_executable("sh"));
  EXPECT_THROW(check_executable("/etc/passwd"), UsageError);
  EXPECT_EQ(find_executable(this_executable()), this_executable());
}

}  // namespace
}  // namespace sheaf::cli
