#include "sheaf/cli/launch/rank_lines.hpp"

#include <fmt/format.h>

namespace sheaf::cli {
namespace {

// Limits the memory for output without line breaks.
constexpr std::size_t kMaxLineBytes = 16 << 20;

}  // namespace

void RankLines::emit(int rank, std::string_view line) {
  on_line_(fmt::format("[{}] {}\n", rank, line));
}

void RankLines::feed(int rank, std::string_view bytes) {
  std::string& partial = partial_[rank];
  for (std::size_t end; (end = bytes.find('\n')) != std::string_view::npos;) {
    partial += bytes.substr(0, end);
    emit(rank, partial);
    partial.clear();
    bytes.remove_prefix(end + 1);
  }
  partial += bytes;
  if (partial.size() >= kMaxLineBytes) finish(rank);
}

void RankLines::finish(int rank) {
  std::string& partial = partial_[rank];
  if (!partial.empty()) emit(rank, partial);
  partial.clear();
}

void RankLines::finish_all() {
  for (const auto& [rank, partial] : partial_) finish(rank);
}

}  // namespace sheaf::cli
