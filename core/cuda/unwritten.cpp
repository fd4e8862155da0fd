// What is still to be written.
#include <adret/core/cuda/kernels.h>
#include <adret/core/error.h>

namespace adret::cuda {

#define ADRET_UNWRITTEN(K)                                            \
  __attribute__((weak)) void run(Context&, const kernels::K& call) {  \
    throw DeviceError(std::string("[cuda] unwritten: ") + call.name); \
  }
ADRET_UNWRITTEN(Fill)
ADRET_UNWRITTEN(Copy)
ADRET_UNWRITTEN(Cast)
ADRET_UNWRITTEN(Unary)
ADRET_UNWRITTEN(UnaryBackward)
ADRET_UNWRITTEN(Binary)
ADRET_UNWRITTEN(Broadcast)
ADRET_UNWRITTEN(Reduce)
ADRET_UNWRITTEN(Matmul)
ADRET_UNWRITTEN(LinearForward)
ADRET_UNWRITTEN(LinearBackwardInput)
ADRET_UNWRITTEN(LinearBackwardWeight)
ADRET_UNWRITTEN(Conv2dForward)
ADRET_UNWRITTEN(Conv2dBackwardInput)
ADRET_UNWRITTEN(Conv2dBackwardWeight)
ADRET_UNWRITTEN(MaxPool2dForward)
ADRET_UNWRITTEN(MaxPool2dBackward)
ADRET_UNWRITTEN(MaxPool2dGather)
ADRET_UNWRITTEN(AvgPool2dForward)
ADRET_UNWRITTEN(AvgPool2dBackward)
ADRET_UNWRITTEN(BatchNormForward)
ADRET_UNWRITTEN(BatchNormInference)
ADRET_UNWRITTEN(BatchNormBackward)
ADRET_UNWRITTEN(SoftmaxForward)
ADRET_UNWRITTEN(SoftmaxBackward)
ADRET_UNWRITTEN(CrossEntropyForward)
ADRET_UNWRITTEN(CrossEntropyBackward)
ADRET_UNWRITTEN(Permute)
ADRET_UNWRITTEN(CopyRuns)
ADRET_UNWRITTEN(GatherRows)
ADRET_UNWRITTEN(RandomUniform)
ADRET_UNWRITTEN(RandomNormal)
ADRET_UNWRITTEN(DropoutForward)
ADRET_UNWRITTEN(DropoutBackward)
ADRET_UNWRITTEN(SgdStep)
ADRET_UNWRITTEN(AdamStep)
ADRET_UNWRITTEN(GradientNorm)
ADRET_UNWRITTEN(ClipByNorm)
ADRET_UNWRITTEN(ClipByValue)

}  // namespace adret::cuda
