#include "sheaf/cli/launch/mpirun.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "sheaf/cli/launch/process.hpp"

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

const MpiInstall kOpenMpi{"mpirun", MpiKind::kOpenMpi, "4.1.4"};
const MpiInstall kMpich{"mpiexec", MpiKind::kMpich, "4.0.2"};

std::string text_of(const MpiInstall& mpi, const MpiRequest& request) {
  return shell_quote(mpi_command(mpi, request));
}

MpiRequest local(int ranks, int cores) {
  MpiRequest request;
  request.ranks = ranks;
  request.cores = cores;
  return request;
}

MpiRequest two_hosts() {
  MpiRequest request = local(4, 16);
  request.hosts = {{"a", 2}, {"b", 2}};
  request.is_local = false;
  return request;
}

TEST(OpenMpiArgs, RanksOfAHostShareItsCores) {
  EXPECT_EQ(text_of(kOpenMpi, local(2, 2)),
            "mpirun -n 2 --map-by slot:PE=1 --bind-to core");
  EXPECT_EQ(text_of(kOpenMpi, local(3, 16)),
            "mpirun -n 3 --map-by slot:PE=5 --bind-to core");
}

TEST(OpenMpiArgs, MoreRanksThanCores) {
  EXPECT_EQ(text_of(kOpenMpi, local(4, 2)),
            "mpirun -n 4 --oversubscribe --map-by slot --bind-to none");
}

TEST(OpenMpiArgs, AsRoot) {
  MpiRequest request = local(1, 1);
  request.is_root = true;
  EXPECT_EQ(text_of(kOpenMpi, request),
            "mpirun --allow-run-as-root -n 1 --map-by slot:PE=1 --bind-to "
            "core");
}

TEST(OpenMpiArgs, ManyHosts) {
  MpiRequest request = two_hosts();
  request.agent = "my agent";
  request.interface = "eth0";
  request.exports = {"PATH", "SHEAF_OPTIONS"};
  request.extra = {"--display-map"};
  EXPECT_EQ(text_of(kOpenMpi, request),
            "mpirun -n 4 --host a:2,b:2 --map-by slot --bind-to none "
            "--mca plm_rsh_agent 'my agent' --mca btl_tcp_if_include eth0 "
            "--mca oob_tcp_if_include eth0 -x PATH -x SHEAF_OPTIONS "
            "--display-map");
}

TEST(OpenMpiArgs, ARankFileDecidesTheBinding) {
  MpiRequest request = two_hosts();
  request.rankfile = "ranks.txt";
  EXPECT_EQ(text_of(kOpenMpi, request),
            "mpirun -n 4 --host a:2,b:2 -rf ranks.txt");
}

TEST(OpenMpiArgs, ASchedulerDecidesAll) {
  MpiRequest request = local(8, 2);
  request.has_scheduler = true;
  request.is_local = false;
  EXPECT_EQ(text_of(kOpenMpi, request), "mpirun -n 8");
}

TEST(MpichArgs, ThisHost) {
  EXPECT_EQ(text_of(kMpich, local(2, 4)),
            "mpiexec -bind-to core:2 -genvall -n 2");
  EXPECT_EQ(text_of(kMpich, local(4, 2)), "mpiexec -genvall -n 4");
}

TEST(MpichArgs, ManyHosts) {
  MpiRequest request = two_hosts();
  request.is_root = true;  // MPICH does not mind
  request.agent = "agent";
  request.interface = "eth0";
  request.exports = {"PATH"};
  request.extra = {"-print-rank-map"};
  EXPECT_EQ(text_of(kMpich, request),
            "mpiexec -hosts a:2,b:2 -launcher-exec agent -iface eth0 -genvall "
            "-print-rank-map -n 4");
}

TEST(MpichArgs, HasNoRankFiles) {
  MpiRequest request = two_hosts();
  request.rankfile = "ranks.txt";
  EXPECT_THROW(mpi_command(kMpich, request), UsageError);
}

}  // namespace

}  // namespace sheaf::cli
