#pragma once
// Puts the pieces of many ranks' output together to whole lines, each with
// its rank in front.

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace sheaf::cli {

class RankLines {
 public:
  using LineHandler = std::function<void(std::string_view)>;

  // `on_line` gets each line once it is whole, as "[rank] text\n".
  explicit RankLines(LineHandler on_line) : on_line_(std::move(on_line)) {}

  void feed(int rank, std::string_view bytes);
  void finish(int rank);  // a last line without its end gets one
  void finish_all();

 private:
  void emit(int rank, std::string_view line);

  LineHandler on_line_;
  std::map<int, std::string> partial_;
};

}  // namespace sheaf::cli
