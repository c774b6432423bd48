#include "sheaf/cli/launch/torch_program.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "sheaf/base/error.hpp"
#include "sheaf/base/system.hpp"
#include "sheaf/cli/launch/mpi_install.hpp"
#include "sheaf/cli/launch/process.hpp"

namespace sheaf::cli {

std::string torch_program() {
  const std::filesystem::path here = this_executable();
  std::string program = (here.parent_path() / "sheaf-torch").string();
  SHEAF_CHECK(!find_executable(program).empty(), "there is no ", program,
              ": this sheaf was built without libtorch; install libtorch and "
              "build with -DSHEAF_WITH_TORCH=ON");
  return program;
}

void become_torch_program(const std::vector<std::string>& words) {
  std::vector<std::string> command{torch_program()};
  command.insert(command.end(), words.begin(), words.end());
  choose_openblas_kernels();
  exec_command(command);
  throw IoError(
      concat("cannot start ", command[0], ": ", std::strerror(errno)));
}

}  // namespace sheaf::cli
