// Reads the folder that is named on the command line, with what a path is made
// of. See SheafDependencies.cmake.
#include <filesystem>
#include <string>

int main(int count, char** words) {
  namespace fs = std::filesystem;
  if (count < 2) return 2;
  const fs::path folder = words[1];
  bool has_itself = false;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const fs::path path = folder / entry.path().filename();
    std::size_t parts = 0;
    for (const fs::path& part : path) parts += part.empty() ? 0 : 1;
    has_itself = has_itself || (parts > 1 && path.extension() == ".cpp" &&
                                path.stem() == "check_filesystem");
  }
  return has_itself ? 0 : 1;
}
