# `cmake --install`: the public headers, static libraries, and the
# package files of find_package(sheaf). The layer cli installs the command.
include(CMakePackageConfigHelpers)
get_property(sheaf_targets GLOBAL PROPERTY SHEAF_TARGETS)

add_library(sheaf_all INTERFACE)
add_library(sheaf::sheaf ALIAS sheaf_all)
set_target_properties(sheaf_all PROPERTIES EXPORT_NAME sheaf)
target_link_libraries(sheaf_all INTERFACE ${sheaf_targets})

install(TARGETS ${sheaf_targets} sheaf_all EXPORT sheaf
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})

# Headers of the interface: sheaf.hpp, the C and DDL interfaces, and the headers
# that they include. All others are internal and are not installed.
function(sheaf_public_headers result)
  set(found)
  set(open ${ARGN})
  while(open)
    list(POP_FRONT open header)
    if(header IN_LIST found)
      continue()
    endif()
    list(APPEND found ${header})
    set(file ${PROJECT_SOURCE_DIR}/${header})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(STRINGS ${file} lines REGEX "^#include \"sheaf/")
    foreach(line IN LISTS lines)
      string(REGEX MATCH "sheaf/[^\"]+" included "${line}")
      list(APPEND open ${included})
    endforeach()
  endwhile()
  set(${result} ${found} PARENT_SCOPE)
endfunction()
sheaf_public_headers(headers sheaf/sheaf.hpp sheaf/sheaf.h
  sheaf/comm/ddl/ddl.hpp)
foreach(header IN LISTS headers)
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${PROJECT_SOURCE_DIR}/${header}
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder})
endforeach()

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
