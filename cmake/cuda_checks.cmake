# What the CUDA backend is built with, and the first thing that keeps it from being built.
include(${CMAKE_CURRENT_LIST_DIR}/nvcc.cmake)

# Finds cuDNN, whose version the compiler tells, in whatever header the macros are.
function(check_cudnn missing)
  find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDNN_ROOT} ENV CUDNN_ROOT ${CUDAToolkit_INCLUDE_DIRS}
            PATH_SUFFIXES include)
  find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${CUDNN_ROOT} ENV CUDNN_ROOT
               ${CUDAToolkit_LIBRARY_DIR} PATH_SUFFIXES lib lib64)
  if(NOT CUDNN_INCLUDE_DIR)
    set(${missing} "there is no cuDNN (cudnn.h; -DCUDNN_ROOT= names its folder)" PARENT_SCOPE)
    return()
  endif()
  set(probe ${PROJECT_BINARY_DIR}/CMakeFiles/cudnn_probe.cpp)
  file(WRITE ${probe} "#include <cudnn.h>\n#include <cudnn_graph.h>\n"
                      "version: CUDNN_MAJOR CUDNN_MINOR CUDNN_PATCHLEVEL\n")
  set(includes ${CUDNN_INCLUDE_DIR} ${CUDAToolkit_INCLUDE_DIRS})
  list(TRANSFORM includes PREPEND -I)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -E ${includes} ${probe}
                  RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE errors)
  if(NOT status EQUAL 0)
    first_error("${errors}" reason)
    set(${missing} "cuDNN's headers in ${CUDNN_INCLUDE_DIR} do not work: ${reason}" PARENT_SCOPE)
    return()
  endif()
  if(NOT output MATCHES "version: ([0-9]+) ([0-9]+) ([0-9]+)")
    set(${missing} "cudnn.h in ${CUDNN_INCLUDE_DIR} does not say its version" PARENT_SCOPE)
    return()
  endif()
  set(version ${CMAKE_MATCH_1}.${CMAKE_MATCH_2}.${CMAKE_MATCH_3})
  if(version VERSION_LESS 9.14 OR version VERSION_GREATER_EQUAL 10)
    set(${missing} "cuDNN in ${CUDNN_INCLUDE_DIR} is version ${version}, wanted 9.14 or later of 9"
        PARENT_SCOPE)
    return()
  endif()
  set(CUDNN_VERSION ${version} PARENT_SCOPE)
endfunction()
