# One folder = one layer = one target. `sheaf_layer(comm DEPENDS topo)` makes
# the library sheaf_comm (alias sheaf::comm) out of the folder's sources.
# PUBLIC and PRIVATE name the outside libraries that the layer links.
add_library(sheaf_flags INTERFACE)
target_compile_features(sheaf_flags INTERFACE cxx_std_20)
target_compile_options(sheaf_flags INTERFACE
  $<BUILD_INTERFACE:-Wall -Wextra -Wpedantic -ffp-contract=off>)
if(SHEAF_WARNINGS_AS_ERRORS)
  target_compile_options(sheaf_flags INTERFACE $<BUILD_INTERFACE:-Werror>)
endif()
if(SHEAF_SANITIZE)
  target_compile_options(sheaf_flags INTERFACE $<BUILD_INTERFACE:
    -fsanitize=${SHEAF_SANITIZE} -fno-omit-frame-pointer -g>)
  target_link_options(sheaf_flags INTERFACE
    $<BUILD_INTERFACE:-fsanitize=${SHEAF_SANITIZE}>)
endif()

set_property(GLOBAL PROPERTY SHEAF_TARGETS sheaf_flags)

function(sheaf_layer name)
  cmake_parse_arguments(arg "" "" "DEPENDS;PUBLIC;PRIVATE;EXCLUDE" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  foreach(file IN LISTS arg_EXCLUDE)
    list(REMOVE_ITEM sources ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  endforeach()
  add_library(sheaf_${name} STATIC ${sources})
  add_library(sheaf::${name} ALIAS sheaf_${name})
  set_target_properties(sheaf_${name} PROPERTIES
    EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  target_include_directories(sheaf_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  list(TRANSFORM arg_DEPENDS PREPEND sheaf::)
  target_link_libraries(sheaf_${name}
    PUBLIC sheaf_flags ${arg_DEPENDS} ${arg_PUBLIC}
    PRIVATE ${arg_PRIVATE})
  set_property(GLOBAL APPEND PROPERTY SHEAF_TARGETS sheaf_${name})
endfunction()
