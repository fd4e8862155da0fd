# The CUDA backend: a shared object beside the library, loaded when a CUDA device is first asked for.
# It links the CUDA runtime statically, and opens the driver, cuDNN and cuBLASLt when it runs.
include(${CMAKE_CURRENT_LIST_DIR}/cuda_checks.cmake)

set(missing "")
check_nvcc(missing)
if(NOT missing)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
    # Turing to Blackwell; 86 covers 89, and newer devices compile the PTX.
    set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 86-real 90 100-real 120-real CACHE STRING
        "GPU architectures to compile for")
  endif()
  if(CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
  endif()
  enable_nvcc(missing)
endif()
if(NOT missing)
  find_package(CUDAToolkit 13.0 QUIET)
  if(NOT CUDAToolkit_FOUND)
    set(missing "nvcc is there, but not the rest of the CUDA toolkit 13.0 or later")
  endif()
endif()
if(NOT missing)
  check_cudnn(missing)
endif()

if(missing)
  if(ADRET_CUDA STREQUAL "ON")
    message(FATAL_ERROR "ADRET_CUDA=ON: ${missing}")
  endif()
  message(STATUS "Without the CUDA backend: ${missing}")
  return()
endif()
message(STATUS "With the CUDA backend: CUDA ${CUDAToolkit_VERSION}, cuDNN ${CUDNN_VERSION}, architectures "
               "${CMAKE_CUDA_ARCHITECTURES}")

file(GLOB cuda_sources CONFIGURE_DEPENDS core/cuda/*.cpp core/cuda/*.cu)
# What only Hopper has, sm_90a, is in files of its own, which are compiled whatever architectures are
# asked for, and look at the device before they run.
set(hopper_sources ${cuda_sources})
list(FILTER hopper_sources INCLUDE REGEX "_wide[^/]*[.]cu$")
list(REMOVE_ITEM cuda_sources ${hopper_sources})
add_library(adret_cuda_objects OBJECT ${cuda_sources})
add_library(adret_hopper_objects OBJECT ${hopper_sources})
set_target_properties(adret_hopper_objects PROPERTIES CUDA_ARCHITECTURES 90a-real)
foreach(objects adret_cuda_objects adret_hopper_objects)
  target_compile_options(${objects} PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr --extended-lambda -diag-suppress=20012>
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wno-missing-field-initializers -Wno-restrict
    -Wno-deprecated-declarations $<$<BOOL:${ADRET_WERROR}>:-Werror>>)
  target_include_directories(${objects} SYSTEM PUBLIC ${CUDNN_INCLUDE_DIR} ${CUDAToolkit_INCLUDE_DIRS})
  target_link_libraries(${objects} PUBLIC adret PRIVATE fmt::fmt)
  set_target_properties(${objects} PROPERTIES POSITION_INDEPENDENT_CODE ON
                        CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden
                        VISIBILITY_INLINES_HIDDEN ON)
endforeach()
# Who links the one gets the other, too.
target_sources(adret_cuda_objects INTERFACE $<TARGET_OBJECTS:adret_hopper_objects>)

add_library(adret_cuda MODULE $<TARGET_OBJECTS:adret_cuda_objects> $<TARGET_OBJECTS:adret_hopper_objects>)
target_link_libraries(adret_cuda PRIVATE adret fmt::fmt CUDA::cudart_static ${CMAKE_DL_LIBS})
# The folders of the libraries compiled against are searched after the loader's own.
set(cudnn_folder ${CUDAToolkit_LIBRARY_DIR})
if(CUDNN_LIBRARY)
  cmake_path(GET CUDNN_LIBRARY PARENT_PATH cudnn_folder)
endif()
set_source_files_properties(core/cuda/libraries.cpp PROPERTIES COMPILE_DEFINITIONS
  "ADRET_CUDNN_LIBRARY=\"${cudnn_folder}/libcudnn.so\";ADRET_CUBLAS_LIBRARY=\"${CUDAToolkit_LIBRARY_DIR}/libcublasLt.so\"")
set_target_properties(adret_cuda PROPERTIES LINKER_LANGUAGE CXX CXX_VISIBILITY_PRESET hidden
  BUILD_RPATH "$ORIGIN;${cudnn_folder};${CUDAToolkit_LIBRARY_DIR}"
  INSTALL_RPATH "$ORIGIN;${cudnn_folder};${CUDAToolkit_LIBRARY_DIR}"
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
add_custom_target(adret_cuda_backend ALL DEPENDS adret_cuda)
