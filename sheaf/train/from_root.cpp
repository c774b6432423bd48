#include "sheaf/train/from_root.hpp"

#include <cstdint>
#include <exception>
#include <vector>

#include "sheaf/comm/collectives.hpp"

namespace sheaf::train {

std::string from_root(const comm::Group& group,
                      const std::function<std::string()>& body) {
  std::string text;
  std::vector<std::int64_t> news(2);  // exit code, length of the text
  std::exception_ptr error;
  if (group.rank() == 0) {
    try {
      text = body();
    } catch (const std::exception& failure) {
      error = std::current_exception();
      news[0] = exit_code(failure);
    }
    news[1] = static_cast<std::int64_t>(text.size());
  }
  comm::broadcast(group, news, {.name = "news from rank 0"});
  if (error) std::rethrow_exception(error);
  if (news[0] != 0) throw FailedOnRoot(static_cast<int>(news[0]));
  text.resize(static_cast<std::size_t>(news[1]));
  comm::broadcast(group, comm::Buffer(text.data(), text.size(), DType::kU8),
                  {.name = "text from rank 0"});
  return text;
}

}  // namespace sheaf::train
