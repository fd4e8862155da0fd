// A library with cuDNN's (or cuBLASLt's) functions, all of which give its version and do nothing
// else.
#include <adret/core/cuda/libraries.h>

#define ADRET_FAKE(function)                                                                     \
  extern "C" __attribute__((visibility("default"))) size_t fake_##function() __asm__(#function); \
  size_t fake_##function() { return ADRET_FAKE_VERSION; }

#if defined(ADRET_FAKE_CUBLAS)
ADRET_CUBLAS_FUNCTIONS(ADRET_FAKE)
#elif defined(ADRET_FAKE_PART)
ADRET_FAKE(cudnnGetVersion)
// As the parts answer whether they are of the version that the common one has.
extern "C" __attribute__((visibility("default"))) cudnnStatus_t fake_check() __asm__(
    "cudnnOpsVersionCheck");
cudnnStatus_t fake_check() { return cudnnStatus_t(ADRET_FAKE_PART); }
#elif defined(ADRET_FAKE_BARE)
ADRET_FAKE(cudnnGetVersion)
#else
ADRET_CUDNN_FUNCTIONS(ADRET_FAKE)
#endif
