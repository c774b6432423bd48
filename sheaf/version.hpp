#pragma once
// The version of Sheaf. CMake reads it from this file.
//
// Programs can test it at compile time: #if SHEAF_VERSION_MAJOR > 0. Versions
// with the same major and minor number have compatible interfaces.

#define SHEAF_VERSION_MAJOR 0
#define SHEAF_VERSION_MINOR 1
#define SHEAF_VERSION_PATCH 0
#define SHEAF_VERSION "0.1.0"
