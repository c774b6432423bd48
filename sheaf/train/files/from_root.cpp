#include "sheaf/train/files/from_root.hpp"

#include <algorithm>
#include <exception>

#include "sheaf/base/failure_note.hpp"
#include "sheaf/comm/group/collectives.hpp"

namespace sheaf::train {
namespace {

[[noreturn]] void fail_after(int rank, std::int64_t code) {
  const FailedOnRoot failure(static_cast<int>(code), rank);
  leave_failure_note(FailureCause::kOther, failure.what());
  throw failure;
}

}  // namespace

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
  comm::broadcast(group, news, {.name = "status of rank 0"}).wait();
  if (error) std::rethrow_exception(error);
  if (news[0] != 0) fail_after(/*rank=*/0, news[0]);
  text.resize(static_cast<std::size_t>(news[1]));
  comm::broadcast(group, comm::Buffer(text.data(), text.size(), DType::kU8),
                  {.name = "text from rank 0"})
      .wait();
  return text;
}

std::vector<std::vector<std::int64_t>> from_all(
    const comm::Group& group, std::size_t numbers,
    const std::function<std::vector<std::int64_t>()>& body) {
  std::vector<std::int64_t> mine(numbers + 1);  // the exit code is last
  std::exception_ptr error;
  try {
    mine = body();
    mine.push_back(0);
  } catch (const std::exception& failure) {
    error = std::current_exception();
    mine.assign(numbers + 1, exit_code(failure));
  }
  const auto ranks = static_cast<std::size_t>(group.size());
  std::vector<std::int64_t> all(mine.size() * ranks);
  comm::all_gather(group, mine, all, {.name = "status of all ranks"}).wait();
  if (error) std::rethrow_exception(error);
  std::vector<std::vector<std::int64_t>> result;
  for (std::size_t i = 0; i < ranks; ++i) {
    const auto begin =
        all.begin() + static_cast<std::ptrdiff_t>(i * mine.size());
    const auto end = begin + static_cast<std::ptrdiff_t>(numbers);
    if (*end != 0) fail_after(static_cast<int>(i), *end);
    result.emplace_back(begin, end);
  }
  return result;
}

std::vector<std::string> texts_of_all(const comm::Group& group,
                                      const std::string& mine) {
  const auto ranks = static_cast<std::size_t>(group.size());
  std::vector<std::int64_t> size{static_cast<std::int64_t>(mine.size())};
  std::vector<std::int64_t> sizes(ranks);
  comm::all_gather(group, size, sizes, {.name = "lengths of texts"}).wait();
  const auto longest =
      static_cast<std::size_t>(*std::max_element(sizes.begin(), sizes.end()));
  std::vector<std::uint8_t> padded(longest);
  std::copy(mine.begin(), mine.end(), padded.begin());
  std::vector<std::uint8_t> all(longest * ranks);
  comm::all_gather(group, padded, all, {.name = "texts"}).wait();
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < ranks; ++i)
    texts.emplace_back(reinterpret_cast<const char*>(all.data() + i * longest),
                       static_cast<std::size_t>(sizes[i]));
  return texts;
}

}  // namespace sheaf::train
