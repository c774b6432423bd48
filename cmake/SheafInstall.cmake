# `cmake --install`: headers as include/sheaf/<layer>, static libraries, and the
# package files of find_package(sheaf). The layer cli installs the command.
include(CMakePackageConfigHelpers)
get_property(sheaf_targets GLOBAL PROPERTY SHEAF_TARGETS)

add_library(sheaf_all INTERFACE)
add_library(sheaf::sheaf ALIAS sheaf_all)
set_target_properties(sheaf_all PROPERTIES EXPORT_NAME sheaf)
target_link_libraries(sheaf_all INTERFACE ${sheaf_targets})

install(TARGETS ${sheaf_targets} sheaf_all EXPORT sheaf
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
foreach(target IN LISTS sheaf_targets)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "STATIC_LIBRARY")
    get_target_property(folder ${target} SOURCE_DIR)
    get_filename_component(layer ${folder} NAME)
    install(DIRECTORY ${folder}/
      DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sheaf/${layer}
      FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h"
      PATTERN "mpi_types.hpp" EXCLUDE)
  endif()
endforeach()
file(GLOB sheaf_top_headers CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/sheaf/*.hpp ${PROJECT_SOURCE_DIR}/sheaf/*.h)
install(FILES ${sheaf_top_headers}
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sheaf)

set(sheaf_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/sheaf)
install(EXPORT sheaf NAMESPACE sheaf:: FILE sheafTargets.cmake
  DESTINATION ${sheaf_package_dir})
configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/sheafConfig.cmake.in
  ${PROJECT_BINARY_DIR}/sheafConfig.cmake
  INSTALL_DESTINATION ${sheaf_package_dir})
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/sheafConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/sheafConfig.cmake
  ${PROJECT_BINARY_DIR}/sheafConfigVersion.cmake
  DESTINATION ${sheaf_package_dir})
