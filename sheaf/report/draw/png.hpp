#pragma once
// PNG files, by the program rsvg-convert (Debian: librsvg2-bin). A program
// rather than the library: `sheaf` starts every rank, and would load the
// dozens of libraries that drawing needs each time.

#include <filesystem>

#include "sheaf/report/draw/scene.hpp"

namespace sheaf::report {

// Writes the picture, light, with twice the scene's pixels. False, and nothing
// written, when the program is not there; IoError when it fails.
bool write_png(const Scene& scene, const std::filesystem::path& file);

}  // namespace sheaf::report
