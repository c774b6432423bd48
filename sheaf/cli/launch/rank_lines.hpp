#pragma once
// Assembles the output of many ranks into whole lines, each prefixed with its
// rank.

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace sheaf::cli {

class RankLines {
 public:
  using LineHandler = std::function<void(std::string_view)>;

  // `on_line` is called with each complete line, as "[rank] text\n".
  explicit RankLines(LineHandler on_line) : on_line_(std::move(on_line)) {}

  void feed(int rank, std::string_view bytes);
  void finish(int rank);  // emits a last line without a line break
  void finish_all();

 private:
  void emit(int rank, std::string_view line);

  LineHandler on_line_;
  std::map<int, std::string> partial_;
};

}  // namespace sheaf::cli
