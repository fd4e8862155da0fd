# The test install.consumer; every step must succeed.
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${FOLDER})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${FOLDER}/prefix)

file(GLOB_RECURSE headers RELATIVE ${FOLDER}/prefix/include ${FOLDER}/prefix/include/*)
foreach(header IN LISTS headers)
  if(NOT header MATCHES "^adret/.*\\.h$" OR header MATCHES "^adret/core/(cpu|cuda)/")
    message(FATAL_ERROR "installed, but no public header: ${header}")
  endif()
endforeach()

set(flags)
if(SANITIZE)
  set(flags -DCMAKE_CXX_FLAGS=-fsanitize=${SANITIZE})
endif()
run(${CMAKE_COMMAND} -S ${CONSUMER} -B ${FOLDER}/build -G Ninja -DCMAKE_PREFIX_PATH=${FOLDER}/prefix
    -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} ${flags})
run(${CMAKE_COMMAND} --build ${FOLDER}/build)
run(${FOLDER}/build/consumer)
