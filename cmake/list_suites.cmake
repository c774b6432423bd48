# Read by CTest before it runs: adds one entry per test suite of `program`. The
# program is queried again after it was rebuilt. `prefix`, `labels` and
# `timeout` apply to the entries.
set(list ${program}.suites)
if(NOT EXISTS ${program})
  add_test("${prefix}${program} was not built" ${program})
  return()
endif()
if(NOT EXISTS ${list} OR ${program} IS_NEWER_THAN ${list})
  execute_process(COMMAND ${program} --gtest_list_tests
    OUTPUT_FILE ${list}.new RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${program} --gtest_list_tests failed: ${result}")
  endif()
  file(RENAME ${list}.new ${list})
endif()
# A suite's line begins at the margin and ends with a dot; after it there may be
# a comment with the type parameter.
file(STRINGS ${list} suites REGEX "^[^ ]+[.]( |$)")
foreach(suite IN LISTS suites)
  string(REGEX REPLACE "[.]( .*)?$" "" suite "${suite}")
  add_test("${prefix}${suite}" ${program} "--gtest_filter=${suite}.*")
  set_tests_properties("${prefix}${suite}" PROPERTIES
    TIMEOUT ${timeout} LABELS ${labels})
endforeach()
