# One folder = one layer = one target. `sheaf_layer(comm DEPENDS topo)` defines
# the library sheaf_comm (alias sheaf::comm) from the sources of the folder and
# its subfolders. PUBLIC and PRIVATE list the external libraries that the layer
# links; EXCLUDE lists sources or subfolders to omit.
add_library(sheaf_flags INTERFACE)
set_target_properties(sheaf_flags PROPERTIES EXPORT_NAME flags)
target_compile_features(sheaf_flags INTERFACE cxx_std_20)
# Users of the installed libraries do not inherit the build flags.
target_compile_options(sheaf_flags INTERFACE
  "$<BUILD_INTERFACE:-Wall;-Wextra;-Wpedantic;-ffp-contract=off>")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND
   CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 reports false overlaps and overflows in string concatenations
  # (PR105651, PR105329).
  target_compile_options(sheaf_flags INTERFACE
    "$<BUILD_INTERFACE:-Wno-restrict;-Wno-stringop-overflow;\
-Wno-stringop-overread;-Wno-array-bounds>")
endif()
if(SHEAF_WARNINGS_AS_ERRORS)
  target_compile_options(sheaf_flags INTERFACE "$<BUILD_INTERFACE:-Werror>")
endif()
# For the presets dev, asan and tsan: an index beyond a container's end stops
# the program; a sanitizer misses it within the vector's capacity.
target_compile_definitions(sheaf_flags INTERFACE
  "$<BUILD_INTERFACE:$<$<CONFIG:Debug>:_GLIBCXX_ASSERTIONS>>")
set(SHEAF_RANK_ENVIRONMENT)  # one variable, for tests that start ranks
if(SHEAF_SANITIZE)
  # MPI libraries keep memory until exit, some in modules that are unloaded by
  # then and cannot be suppressed by name. Tests with ranks as threads find
  # Sheaf's own leaks.
  set(SHEAF_RANK_ENVIRONMENT ASAN_OPTIONS=detect_leaks=0)
  target_compile_options(sheaf_flags INTERFACE "$<BUILD_INTERFACE:\
-fsanitize=${SHEAF_SANITIZE};-fno-omit-frame-pointer;-g1>")
  target_link_options(sheaf_flags INTERFACE
    "$<BUILD_INTERFACE:-fsanitize=${SHEAF_SANITIZE}>")
endif()

set_property(GLOBAL PROPERTY SHEAF_TARGETS sheaf_flags)
set(SHEAF_TORCH_LAYERS tensor nn data parallel spatial train)

# Programs with the property SHEAF_OTHER_MPI link their own MPI library and the
# objects that call it; all others get the MPI that the layer was compiled with.
set(SHEAF_MPI_LINK
  "$<BUILD_INTERFACE:$<$<NOT:$<BOOL:$<TARGET_PROPERTY:SHEAF_OTHER_MPI>>>:\
MPI::MPI_C>>" "$<INSTALL_INTERFACE:MPI::MPI_C>")

# Header-only: users of the installed libraries do not need them.
set(SHEAF_HEADER_ONLY nlohmann_json::nlohmann_json CLI11::CLI11)

function(sheaf_private_libraries out)
  set(result)
  foreach(library IN LISTS ARGN)
    if(library STREQUAL MPI::MPI_C)
      list(APPEND result ${SHEAF_MPI_LINK})
    elseif(library IN_LIST SHEAF_HEADER_ONLY)
      list(APPEND result $<BUILD_INTERFACE:${library}>)
    else()
      list(APPEND result ${library})
    endif()
  endforeach()
  set(${out} ${result} PARENT_SCOPE)
endfunction()

function(sheaf_layer name)
  cmake_parse_arguments(arg "" "" "DEPENDS;PUBLIC;PRIVATE;EXCLUDE" ${ARGN})
  file(GLOB sources RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS
    *.cpp */*.cpp)
  foreach(name_or_room IN LISTS arg_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "^${name_or_room}($|/)")
  endforeach()
  add_library(sheaf_${name} STATIC ${sources})
  add_library(sheaf::${name} ALIAS sheaf_${name})
  set_target_properties(sheaf_${name} PROPERTIES
    EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  target_include_directories(sheaf_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  list(TRANSFORM arg_DEPENDS PREPEND sheaf::)
  sheaf_private_libraries(private ${arg_PRIVATE})
  target_link_libraries(sheaf_${name}
    PUBLIC sheaf_flags ${arg_DEPENDS} ${arg_PUBLIC}
    PRIVATE ${private})
  if(name IN_LIST SHEAF_TORCH_LAYERS)
    sheaf_use_torch(sheaf_${name})
  endif()
  set_property(GLOBAL APPEND PROPERTY SHEAF_TARGETS sheaf_${name})
endfunction()

# Targets that include libtorch's headers share two precompiled ones: those of
# the product that of tensors and modules, tests and examples (TEST) that of
# everything. The first target compiles it, so all must have the same flags.
# Templates that a header leaves pending are compiled again with each source
# that uses it, which takes most of the time; as our own code here only calls
# libtorch's, little optimization is enough, and none in tests.
function(sheaf_use_torch target)
  if(SHEAF_FMT_FIRST)
    target_include_directories(${target} BEFORE PRIVATE
      $<BUILD_INTERFACE:${SHEAF_FMT_FIRST}>)
  endif()
  # Some libtorch classes have other members without it, and its packages are
  # built with it.
  target_compile_definitions(${target} PRIVATE NDEBUG)
  # For programs too: CMake's property would set -fPIE for them.
  # At -O1, GCC warns about uninitialized members of libtorch's options.
  set(headers <torch/types.h> <torch/nn/module.h> <torch/nn/pimpl.h>)
  set(kind product)
  set(level 1)
  if("TEST" IN_LIST ARGN)
    set(headers <torch/torch.h>)
    set(kind test)
    set(level 0)
  endif()
  target_compile_options(${target} PRIVATE
    -fPIC $<$<CONFIG:Release>:-O${level}>
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  get_property(owner GLOBAL PROPERTY SHEAF_TORCH_HEADER_${kind})
  if(owner)
    target_precompile_headers(${target} REUSE_FROM ${owner})
  else()
    target_precompile_headers(${target} PRIVATE ${headers})
    set_property(GLOBAL PROPERTY SHEAF_TORCH_HEADER_${kind} ${target})
  endif()
endfunction()
