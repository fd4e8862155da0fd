// Tries every pair, until none is left.
#include <adret/core/replay/fuse.h>

namespace adret {
namespace {

bool fuse_some(CallList& list) {
  bool fused = false;
  for (size_t i = 0; i < list.size(); ++i) {
    fused = fuse_activation(list, i) || fuse_norm(list, i) || fuse_loss(list, i) ||
            fuse_flatten(list, i) || fuse_group_norm(list, i) || fused;
  }
  return fused;
}

}  // namespace

void fuse(CallList& list) {
  // Again, as a fused call may be one of another pair.
  while (fuse_some(list)) {
  }
}

}  // namespace adret
