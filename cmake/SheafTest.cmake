# sheaf_tests(comm): one program, test_comm, out of tests/comm/*_test.cpp;
# each of its cases is a CTest entry.
include(GoogleTest)

function(sheaf_tests layer)
  file(GLOB sources CONFIGURE_DEPENDS
    ${CMAKE_CURRENT_SOURCE_DIR}/${layer}/*_test.cpp)
  if(NOT sources)
    return()
  endif()
  add_executable(test_${layer} ${sources})
  target_link_libraries(test_${layer} PRIVATE
    sheaf::${layer} GTest::gtest_main)
  target_precompile_headers(test_${layer} PRIVATE <gtest/gtest.h>)
  gtest_discover_tests(test_${layer}
    TEST_PREFIX "${layer}: " DISCOVERY_MODE PRE_TEST
    PROPERTIES TIMEOUT 120 LABELS ${layer})
endfunction()
