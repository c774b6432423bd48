# sheaf_tests(comm): one program, test_comm, from the files *_test.cpp in
# tests/comm and its subfolders; each test case is a CTest entry. In layers that
# link libtorch each suite is one entry, because such a program takes most of a
# second to start.
# sheaf_rank_tests(comm): one program, ranks_comm, from the files *_ranks.cpp
# there; a CTest entry per number of ranks.
include(GoogleTest)
include(SheafMpi)

set(SHEAF_TEST_TIMEOUT 120)
# One thread for each of the tests that run side by side.
set(environment ${SHEAF_LAUNCH_ENVIRONMENT} OMP_NUM_THREADS=1)
if(SHEAF_SANITIZE)
  set(SHEAF_TEST_TIMEOUT 600)
  # The thread sanitizer cannot see how MPI libraries synchronize.
  set(suppressions ${PROJECT_SOURCE_DIR}/cmake/sanitizers/tsan.txt)
  list(APPEND environment
    TSAN_OPTIONS=suppressions=${suppressions}:ignore_noninstrumented_modules=1
    UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1)
endif()

# CTest reads this file before it starts a test, and passes its environment on.
# (gtest_discover_tests cannot take more than one variable.)
set(script ${CMAKE_CURRENT_BINARY_DIR}/test_environment.cmake)
file(WRITE ${script} "# Written by cmake/SheafTest.cmake.\n")
foreach(variable IN LISTS environment)
  string(REGEX MATCH "^([^=]+)=(.*)$" variable "${variable}")
  file(APPEND ${script} "if(NOT DEFINED ENV{${CMAKE_MATCH_1}})\n"
    "  set(ENV{${CMAKE_MATCH_1}} \"${CMAKE_MATCH_2}\")\nendif()\n")
endforeach()
set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${script})

# GoogleTest's macros hold an `if` of their own, safely.
add_library(sheaf_test_flags INTERFACE)
target_compile_options(sheaf_test_flags INTERFACE -Wno-dangling-else
  $<$<CONFIG:Release>:-O0>)  # compiling takes longer than they run
if(SHEAF_SANITIZE MATCHES undefined AND NOT SHEAF_WITH_TORCH)
  # Undefined behavior is checked only in Sheaf's sources: in test sources the
  # checks would take a third of the compile time.
  target_compile_options(sheaf_test_flags INTERFACE -fno-sanitize=undefined)
endif()

# The code that tests share, tests/support/*.cpp, is compiled once.
file(GLOB support CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/support/*.cpp)
set(ranks_main ${PROJECT_SOURCE_DIR}/tests/support/ranks_main.cpp)
list(REMOVE_ITEM support ${ranks_main})
set(SHEAF_TEST_SUPPORT)
if(support)
  add_library(test_support OBJECT ${support})
  target_link_libraries(test_support PRIVATE
    sheaf::sheaf sheaf_test_flags GTest::gtest)
  set(SHEAF_TEST_SUPPORT $<TARGET_OBJECTS:test_support>)
endif()

function(sheaf_tests layer)
  file(GLOB sources CONFIGURE_DEPENDS
    ${layer}/*_test.cpp ${layer}/*/*_test.cpp)
  if(NOT sources)
    return()
  endif()
  add_executable(test_${layer} ${sources})
  target_link_libraries(test_${layer} PRIVATE
    sheaf::${layer} sheaf_test_flags GTest::gtest_main)
  if(layer IN_LIST SHEAF_TORCH_LAYERS)
    sheaf_use_torch(test_${layer} TEST)
  else()
    target_precompile_headers(test_${layer} PRIVATE <gtest/gtest.h>)
  endif()
  if(SHEAF_TEST_SUPPORT AND NOT layer MATCHES "^(base|topo|formats|plan|report)$")
    target_sources(test_${layer} PRIVATE ${SHEAF_TEST_SUPPORT})
    target_link_libraries(test_${layer} PRIVATE sheaf::comm)
  endif()
  set(environment)
  # `sheaf run` and `sheaf bench` start ranks.
  if(layer STREQUAL cli AND SHEAF_RANK_ENVIRONMENT)
    set(environment ENVIRONMENT ${SHEAF_RANK_ENVIRONMENT})
  endif()
  if(layer IN_LIST SHEAF_TORCH_LAYERS)
    sheaf_discover_suites(test_${layer} ${layer})
    return()
  endif()
  gtest_discover_tests(test_${layer}
    TEST_PREFIX "${layer}: " DISCOVERY_MODE PRE_TEST NO_PRETTY_VALUES
    PROPERTIES TIMEOUT ${SHEAF_TEST_TIMEOUT} LABELS ${layer}
    ${environment})
endfunction()

# One entry per suite of `program`, discovered when CTest starts.
function(sheaf_discover_suites program label)
  math(EXPR limit "3 * ${SHEAF_TEST_TIMEOUT}")
  set(script ${CMAKE_CURRENT_BINARY_DIR}/${program}_suites.cmake)
  file(GENERATE OUTPUT ${script} CONTENT "# Written by cmake/SheafTest.cmake.
set(program \"$<TARGET_FILE:${program}>\")
set(prefix \"${label}: \")
set(labels ${label})
set(timeout ${limit})
include(\"${PROJECT_SOURCE_DIR}/cmake/list_suites.cmake\")
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${script})
endfunction()

# One CTest entry: `command` on `ranks` ranks, started by `launcher`. The
# launcher stops the ranks itself before CTest's timeout would leave them behind.
function(sheaf_add_rank_test name label ranks launcher)
  add_test(NAME "${name}" COMMAND ${${launcher}} -n ${ranks} ${ARGN})
  math(EXPR limit "${SHEAF_TEST_TIMEOUT} - 10")
  set(environment ${SHEAF_RANK_ENVIRONMENT} MPIEXEC_TIMEOUT=${limit})
  # They run one at a time, so they begin first (COST). One that asked for more
  # processors would wait until all tests that need one are through.
  set_tests_properties("${name}" PROPERTIES
    TIMEOUT ${SHEAF_TEST_TIMEOUT} LABELS ${label} RESOURCE_LOCK ranks COST 100
    ENVIRONMENT "${environment}")
endfunction()

# The rank tests of `layer` as a program linked to MPICH instead of the MPI that
# was found. Its own objects that use MPI precede those in sheaf_comm's archive,
# which are therefore never linked.
function(sheaf_mpich_rank_tests layer)
  set(program ranks_${layer}_mpich)
  add_executable(${program} $<TARGET_OBJECTS:ranks_${layer}_objects>
    $<TARGET_OBJECTS:sheaf_comm_mpich> ${SHEAF_TEST_SUPPORT})
  set_target_properties(${program} PROPERTIES
    SHEAF_OTHER_MPI ON LINKER_LANGUAGE CXX)
  target_link_libraries(${program} PRIVATE
    sheaf::${layer} sheaf_mpich GTest::gtest)
  foreach(ranks 2 3)
    sheaf_add_rank_test("${layer}: mpich ranks np=${ranks}" ${layer}
      ${ranks} SHEAF_LAUNCH_MPICH $<TARGET_FILE:${program}>)
  endforeach()
  add_test(NAME "${layer}: mpich program links one MPI"
    COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:${program}>
      -DWANTED=libmpich -DUNWANTED=libmpi[.]so
      -P ${PROJECT_SOURCE_DIR}/cmake/check_linked.cmake)
endfunction()

function(sheaf_rank_tests layer)
  file(GLOB sources CONFIGURE_DEPENDS
    ${layer}/*_ranks.cpp ${layer}/*/*_ranks.cpp)
  if(NOT sources OR NOT SHEAF_LAUNCH)
    return()
  endif()
  add_library(ranks_${layer}_objects OBJECT ${sources} ${ranks_main})
  target_link_libraries(ranks_${layer}_objects PRIVATE
    sheaf::${layer} sheaf_test_flags GTest::gtest)
  if(layer IN_LIST SHEAF_TORCH_LAYERS)
    sheaf_use_torch(ranks_${layer}_objects TEST)
  else()
    target_precompile_headers(ranks_${layer}_objects PRIVATE <gtest/gtest.h>)
  endif()
  add_executable(ranks_${layer}
    $<TARGET_OBJECTS:ranks_${layer}_objects> ${SHEAF_TEST_SUPPORT})
  set_target_properties(ranks_${layer} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(ranks_${layer} PRIVATE sheaf::${layer} GTest::gtest)
  set(numbers 1 2 3 4)
  if(layer IN_LIST SHEAF_TORCH_LAYERS)
    set(numbers 2 3 4)  # one rank alone is tested with ranks as threads
  endif()
  foreach(ranks IN LISTS numbers)
    sheaf_add_rank_test("${layer}: ranks np=${ranks}" ${layer}
      ${ranks} SHEAF_LAUNCH $<TARGET_FILE:ranks_${layer}>)
  endforeach()
  # With both MPIs if the layer uses MPI itself.
  if(SHEAF_LAUNCH_MPICH AND layer STREQUAL comm)
    sheaf_mpich_rank_tests(${layer})
  endif()
endfunction()
