// Certifies this project's layers: prints a table for each, and fails where a row does.
//
//   certify_layers [NAME...] [--device D] [--list]
#include <adret/certify/certify.h>

#include "learnable_swish.h"

int main(int argc, char** argv) {
  // How to make a layer, and the shapes of small inputs for it; the leading dimension is the batch.
  return adret::certify_main(argc, argv,
                             {{"LearnableSwish", [] { return LearnableSwish(6); }, {{4, 6}}}});
}
