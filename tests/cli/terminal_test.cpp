// Ctrl-C on a terminal, which sends SIGINT to the whole process group.
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>

#include "tests/cli/run_sheaf.hpp"

namespace sheaf::cli {
namespace {

namespace fs = std::filesystem;

class Terminal : public RunSheaf {
 protected:
  // Starts sheaf on a separate terminal.
  void open(const std::vector<std::string>& arguments) {
    std::vector<std::string> words{sheaf_program()};
    words.insert(words.end(), arguments.begin(), arguments.end());
    int master = -1;
    pid_ = ::forkpty(&master, nullptr, nullptr, nullptr);
    if (pid_ == 0) {
      exec_command(words);
      ::_exit(125);
    }
    terminal_ = Fd(master);
  }

  // Reads until `part` appears in the output, or to the end if it is empty.
  bool read_until(const std::string& part) {
    const auto limit = Clock::now() + std::chrono::minutes(1);
    while (terminal_.is_open() && Clock::now() < limit) {
      if (!part.empty() && text_.find(part) != text_.npos) return true;
      pollfd ready{terminal_.get(), POLLIN, 0};
      if (::poll(&ready, 1, poll_timeout_ms(limit)) > 0)
        text_ += read_some(terminal_, 4096);
    }
    return part.empty() && !terminal_.is_open();
  }

  int code_after_ctrl_c() {
    write_all(terminal_.get(), "\x03");
    EXPECT_TRUE(read_until(""));
    return finish().code;
  }

  Fd terminal_;
  std::string text_;
};

TEST_P(Terminal, CtrlCEndsARunWith130) {
  for (const char* ranks : {"1", "2"}) {
    text_.clear();
    open({"run", "-n", ranks, "--", "sh", "-c", "echo ready; exec sleep 600"});
    ASSERT_TRUE(read_until("ready")) << text_;
    EXPECT_EQ(code_after_ctrl_c(), 128 + SIGINT) << ranks << text_;
  }
}

TEST_P(Terminal, CtrlCEndsTrainingWith130) {
  if (GetParam() != installed_mpis()[0])
    GTEST_SKIP() << "there is one that the ranks are linked to";
  ::unsetenv("SHEAF_MPIEXEC");
  if (!fs::exists(fs::path(sheaf_program()).parent_path() / "sheaf-torch"))
    GTEST_SKIP() << "built without libtorch";
  write_file(file("a.yaml"),
             "data: {name: synthetic, arguments: {examples: 80}}\n"
             "epochs: 1000000\nthreads: 1\noutput: {log_every: 1}\n");
  for (const char* ranks : {"1", "2"}) {
    text_.clear();
    open({"train", file("a.yaml"), "-n", ranks, "--output", file(ranks)});
    ASSERT_TRUE(read_until("epoch 2/")) << text_;
    EXPECT_EQ(code_after_ctrl_c(), 128 + SIGINT) << ranks << text_;
    EXPECT_NE(text_.find("the checkpoint is saved"), text_.npos) << text_;
  }
}

INSTANTIATE_TEST_SUITE_P(Mpi, Terminal, testing::ValuesIn(installed_mpis()),
                         mpi_test_name);

}  // namespace
}  // namespace sheaf::cli
