#pragma once
// Protects values that ranks exchange through a store to which others can
// write, such as torchrun's. A sealed value carries a code that only a rank of
// the job can compute, from the job, the session, the value's name (which
// contains the rank) and the value. So values of strangers, of other jobs and
// of earlier sessions are detected. They are not hidden, and can be removed.

#include <optional>
#include <string>

#include "sheaf/comm/network/secret.hpp"

namespace sheaf::comm {

class Seal {
 public:
  explicit Seal(const JobIdentity& identity);

  // The random number of the session, chosen by rank 0; all zero before that.
  void set_session(const Bytes32& session) { session_ = session; }
  const Bytes32& session() const { return session_; }
  Key session_key() const;

  std::string close(const std::string& name, const std::string& value) const;
  // The value; nothing if it was not sealed by a rank of this session.
  std::optional<std::string> open(const std::string& name,
                                  const std::string& sealed) const;

 private:
  Mac code_of(const std::string& name, const std::string& value) const;

  const JobIdentity identity_;
  Bytes32 session_{};
};

}  // namespace sheaf::comm
