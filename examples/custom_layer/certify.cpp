// Certifies this folder's layers: certify_custom_layer [NAME...] [--device cuda].
#include <adret/certify/certify.h>

#include "activations.h"
#include "blur.h"
#include "fake_quantize.h"
#include "gated_residual.h"

using namespace custom_layer;

int main(int argc, char** argv) {
  return certify_main(
      argc, argv,
      {{"swish", swish, {{4, 6}}},
       {"learnable_swish", [] { return LearnableSwish(3); }, {{4, 5, 3}}},
       // Batch norm cannot be trained on no samples.
       {"gated_residual", [] { return GatedResidual(3); }, {{4, 5, 6, 3}}, {.batches = {1, 3}}},
       // With so many bits that rounding is lost in f64's own, the estimated gradient is exact.
       {"fake_quant_linear_50_bits",
        [] { return FakeQuantLinear(6, 5, {.bits = 50, .range = 1}); },
        {{4, 6}}},
       {"fake_quant_linear",
        [] { return FakeQuantLinear(6, 5, {.bits = 4, .range = 1}); },
        {{4, 6}},
        {.skip = {{"gradients", "estimated; of 50 bits they are exact"},
                  {"second derivative", "likewise"}}}},
       {"blur", blur, {{2, 5, 7, 3}}}});
}
