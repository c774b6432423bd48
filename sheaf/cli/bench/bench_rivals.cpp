#include <stdlib.h>
#include <string.h>

#include <array>
#include <cerrno>
#include <filesystem>

#include "sheaf/base/error.hpp"
#include "sheaf/cli/bench/bench_run.hpp"
#include "sheaf/comm/group/collectives.hpp"

namespace sheaf::cli {
namespace {

// A temporary folder for the rendezvous of all ranks. Rank 0 creates it,
// broadcasts its path, and removes it in the destructor.
class MeetingPlace {
 public:
  explicit MeetingPlace(const comm::Group& group) : group_(group) {
    if (group.rank() == 0) make();
    std::array<std::uint8_t, 4096> letters{};
    path_.copy(reinterpret_cast<char*>(letters.data()), letters.size() - 1);
    comm::broadcast(group, letters).wait();
    path_ = reinterpret_cast<const char*>(letters.data());
  }
  ~MeetingPlace() {
    std::error_code ignored;
    if (group_.rank() == 0) std::filesystem::remove_all(path_, ignored);
  }
  MeetingPlace(const MeetingPlace&) = delete;
  MeetingPlace& operator=(const MeetingPlace&) = delete;

  const std::string& path() const { return path_; }

 private:
  void make() {
    const auto folder = std::filesystem::temp_directory_path();
    path_ = (folder / "sheaf-bench-XXXXXX").string();
    if (!::mkdtemp(path_.data()))
      throw IoError(concat("cannot create a folder in '", folder.string(),
                           "': ", ::strerrordesc_np(errno)));
  }

  const comm::Group& group_;
  std::string path_;
};

std::unique_ptr<comm::RivalLibrary> join_gloo(const comm::Group& group,
                                              const std::string& interface) {
  const bool is_one_host = group.host_count() == 1;
  SHEAF_CHECK(is_one_host || !interface.empty(), "--versus gloo on ",
              group.host_count(),
              " hosts needs --interface, the network interface between them");
  const MeetingPlace place(group);
  auto library =
      comm::make_gloo_rival({.rank = group.rank(),
                             .size = group.size(),
                             .folder = place.path(),
                             .interface = is_one_host ? "lo" : interface});
  comm::barrier(group).wait();  // all have joined: the folder can be removed
  return library;
}

}  // namespace

std::unique_ptr<comm::RivalLibrary> join_rival(const comm::Group& group,
                                               const std::string& name,
                                               const std::string& interface) {
  if (name == "mpi") return comm::make_mpi_rival();
  return join_gloo(group, interface);
}

}  // namespace sheaf::cli
