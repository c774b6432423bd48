# cmake -DFOLDER=PREFIX/include/sheaf -P check_headers.cmake: fails if internal
# headers are installed, or the user's header is not.
if(NOT EXISTS ${FOLDER}/sheaf.hpp OR NOT EXISTS ${FOLDER}/version.hpp)
  message(FATAL_ERROR "${FOLDER} has no sheaf.hpp or no version.hpp")
endif()
file(GLOB_RECURSE headers RELATIVE ${FOLDER} ${FOLDER}/*.h ${FOLDER}/*.hpp)
# Rooms and headers of which nothing belongs to the interface.
set(internal ^cli/ ^report/ ^halo/ ^comm/transport/ ^comm/host/ ^comm/process/
  ^comm/choice/ ^comm/algorithms/ ^parallel/matrix/ ^plan/choose/ ^plan/graph/
  _core.hpp$ reducer.hpp$ parallel_state.hpp$ kept_state.hpp$
  state_fields.hpp$ ^spatial/ops/ learner.hpp$ tiles.hpp$ ^base/text.hpp$)
foreach(pattern IN LISTS internal)
  set(found ${headers})
  list(FILTER found INCLUDE REGEX ${pattern})
  if(found)
    message(FATAL_ERROR "internal headers are installed: ${found}")
  endif()
endforeach()
list(LENGTH headers count)
message("${count} headers are installed")
