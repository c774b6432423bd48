# Finds every external library once. README lists each with its purpose.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(hwloc REQUIRED IMPORTED_TARGET hwloc)
pkg_check_modules(sodium REQUIRED IMPORTED_TARGET libsodium)
find_package(yaml-cpp REQUIRED)
find_package(simdjson REQUIRED)
find_package(ZLIB REQUIRED)
# Optional: images.
find_package(PNG)
find_package(JPEG)
# Old yaml-cpp packages name their target without a namespace.
set(SHEAF_YAML yaml-cpp)
if(TARGET yaml-cpp::yaml-cpp)
  set(SHEAF_YAML yaml-cpp::yaml-cpp)
endif()

if(SHEAF_WITH_MPI)
  # The C interface only: the C++ bindings were removed from the standard.
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI REQUIRED COMPONENTS C)
  # May be a bare program name, like MPI_C_COMPILER.
  find_program(mpiexec NAMES ${MPIEXEC_EXECUTABLE} NO_CACHE)
  set(MPIEXEC_EXECUTABLE ${mpiexec})
endif()

# Optional: `sheaf bench --versus gloo` compares with it.
find_path(SHEAF_GLOO_INCLUDE gloo/allreduce.h)
find_library(SHEAF_GLOO_LIBRARY gloo)
mark_as_advanced(SHEAF_GLOO_INCLUDE SHEAF_GLOO_LIBRARY)

if(SHEAF_WITH_TORCH)
  find_package(Torch REQUIRED)
  # Some libtorch builds ship headers of another fmt, which would be found
  # before those of the linked fmt.
  find_path(SHEAF_TORCH_FMT fmt/format.h PATHS ${TORCH_INCLUDE_DIRS}
    NO_DEFAULT_PATH)
  mark_as_advanced(SHEAF_TORCH_FMT)
  get_target_property(fmt_include fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
  if(SHEAF_TORCH_FMT AND NOT SHEAF_TORCH_FMT STREQUAL fmt_include)
    set(SHEAF_FMT_FIRST ${PROJECT_BINARY_DIR}/fmt_first)
    file(MAKE_DIRECTORY ${SHEAF_FMT_FIRST})
    file(CREATE_LINK ${fmt_include}/fmt ${SHEAF_FMT_FIRST}/fmt SYMBOLIC)
  endif()
  # libtorch 2 exports functions of an older std::filesystem. They come before
  # those of a libstdc++ that is linked statically, as some compilers do, and
  # the program crashes in the first folder that it reads. The check links the
  # library by its file: the package's targets need others, which are not known
  # in a project of its own.
  get_filename_component(torch_folder "${TORCH_LIBRARY}" DIRECTORY)
  find_library(SHEAF_TORCH_CPU torch_cpu HINTS ${torch_folder}
    ${TORCH_INSTALL_PREFIX}/lib)
  mark_as_advanced(SHEAF_TORCH_CPU)
  if(SHEAF_TORCH_CPU AND NOT CMAKE_CROSSCOMPILING)
    get_filename_component(torch_folder "${SHEAF_TORCH_CPU}" DIRECTORY)
    try_run(SHEAF_FOLDERS_READ SHEAF_FOLDERS_LINK
      ${PROJECT_BINARY_DIR}/check_filesystem
      ${PROJECT_SOURCE_DIR}/cmake/check_filesystem.cpp
      LINK_OPTIONS -Wl,--no-as-needed -Wl,-rpath,${torch_folder}
        -Wl,--unresolved-symbols=ignore-in-shared-libs
      LINK_LIBRARIES ${SHEAF_TORCH_CPU}
      CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON
      ARGS ${PROJECT_SOURCE_DIR}/cmake)
    # 127: the loader did not find libtorch, which is reported elsewhere.
    if(SHEAF_FOLDERS_LINK AND NOT "${SHEAF_FOLDERS_READ}" MATCHES "^(0|127)$")
      set(how "${SHEAF_FOLDERS_READ}")
      unset(SHEAF_FOLDERS_READ CACHE)
      message(FATAL_ERROR "Programs that ${CMAKE_CXX_COMPILER} links with "
        "libtorch cannot read folders (${how}): it seems to link "
        "libstdc++ statically, and std::filesystem then comes from libtorch, "
        "which has an older one. Set CXX to a compiler with a shared "
        "libstdc++, such as /usr/bin/g++, and configure in an empty folder.")
    endif()
  endif()
endif()

# A Python that has torch, for tests that compare with it.
set(SHEAF_TORCH_PYTHON python3)  # if none has it, tests report it as missing
foreach(python python3 /usr/bin/python3)
  execute_process(COMMAND ${python} -c "import torch"
    RESULT_VARIABLE result OUTPUT_QUIET ERROR_QUIET)
  if(result EQUAL 0)
    set(SHEAF_TORCH_PYTHON ${python})
    break()
  endif()
endforeach()
