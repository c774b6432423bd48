# cmake -DPROGRAM=... -DWANTED=regex -DUNWANTED=regex -P check_linked.cmake
# fails unless PROGRAM loads a library that matches WANTED and none that
# matches UNWANTED.
execute_process(COMMAND ldd ${PROGRAM} OUTPUT_VARIABLE libraries
  COMMAND_ERROR_IS_FATAL ANY)
if(NOT libraries MATCHES "${WANTED}")
  message(FATAL_ERROR "${PROGRAM} does not load ${WANTED}:\n${libraries}")
endif()
if(libraries MATCHES "${UNWANTED}")
  message(FATAL_ERROR "${PROGRAM} loads ${UNWANTED}:\n${libraries}")
endif()
