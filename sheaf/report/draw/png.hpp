#pragma once
// Writes PNG files with the program rsvg-convert (Debian: librsvg2-bin). The
// library is not linked, because `sheaf` starts every rank and would load its
// dozens of dependencies each time.

#include <filesystem>

#include "sheaf/report/draw/scene.hpp"

namespace sheaf::report {

// Writes the scene in light colors at twice its resolution. Returns false,
// without writing a file, if rsvg-convert is not installed; throws IoError if
// it fails.
bool write_png(const Scene& scene, const std::filesystem::path& file);

}  // namespace sheaf::report
