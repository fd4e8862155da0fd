# The test install.consumer; every step must succeed.
cmake_minimum_required(VERSION 3.25)
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

# A new project, by the command that was installed.
set(project ${FOLDER}/first-layers)
run(${FOLDER}/prefix/bin/adret-new-project ${project})
execute_process(COMMAND ${CMAKE_COMMAND} -S ${project} -B ${project}/build -G Ninja
                        -DCMAKE_PREFIX_PATH=${FOLDER}/prefix -DCMAKE_CXX_COMPILER=${COMPILER}
                        -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}
                        -DCMAKE_CUDA_COMPILER_LAUNCHER=${LAUNCHER} ${flags}
                OUTPUT_VARIABLE output ECHO_OUTPUT_VARIABLE COMMAND_ERROR_IS_FATAL ANY)
set(expected "Formulas for the CPU alone: the library was built without its CUDA backend")
if(CUDA)
  set(expected "Formulas for the CPU and, by nvcc")
endif()
if(NOT output MATCHES "${expected}")
  message(FATAL_ERROR "the new project's configuration does not say: ${expected}")
endif()
run(${CMAKE_COMMAND} --build ${project}/build)
run(${CMAKE_CTEST_COMMAND} --test-dir ${project}/build --output-on-failure --no-tests=error)
execute_process(COMMAND ${project}/build/train OUTPUT_VARIABLE output ECHO_OUTPUT_VARIABLE
                COMMAND_ERROR_IS_FATAL ANY)
if(NOT output MATCHES "epoch 10 [^\n]*test accuracy (9[5-9]|100)")
  message(FATAL_ERROR "the new project's training program does not reach 95 %")
endif()
