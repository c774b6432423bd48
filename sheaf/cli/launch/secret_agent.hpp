#pragma once
// MPI passes environment variables on to other hosts in messages that are
// neither encrypted nor authenticated. The secret of a job takes another way:
// the remote shell that starts MPI's daemon on a host, such as ssh, carries it
// as the daemon's input, and the daemon's ranks inherit it.

#include <string>

#include "sheaf/base/files.hpp"
#include "sheaf/cli/launch/mpirun.hpp"

namespace sheaf::cli {

class SecretAgent {
 public:
  // `shell`: the remote shell and its arguments, without the host. The files
  // below exist as long as this object, and only this user may read them.
  SecretAgent(const std::string& shell, const std::string& secret);

  // The program for MPI to use as remote shell.
  std::string program() const { return (folder_.path() / "agent").string(); }
  // The file with the secret, for the ranks of this host.
  std::string secret_file() const {
    return (folder_.path() / "secret").string();
  }

 private:
  WorkFolder folder_;
};

// The remote shell that the MPI would use: the chosen one, that of MPI's own
// environment variable, or ssh.
std::string remote_shell(MpiKind kind, const std::string& chosen);

}  // namespace sheaf::cli
