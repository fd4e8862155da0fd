// The blocks of batch normalisation in one launch, and what they keep.
#include <adret/core/cuda/norm_share.h>

#include <algorithm>
#include <bit>

namespace adret::cuda {
namespace {

constexpr int largest_cluster = 8;  // that every device with clusters runs
constexpr int64_t vector_bytes = 16, pair_bytes = 16;

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

class Planner {
 public:
  Planner(const Context& context, int64_t rows, int64_t channels, int n, int summed,
          bool has_residual)
      : multiprocessors_(context.multiprocessors()),
        shared_(int64_t(context.properties.sharedMemPerBlockOptin) - int64_t(together_own)),
        rows_(rows),
        channels_(channels),
        n_(n),
        summed_(summed),
        has_residual_(has_residual) {}

  int full_width() const {
    int width = 1;
    while (width < together_width && width * n_ < channels_) width *= 2;
    return width;
  }
  // Blocks of a slice that leave each thread two vectors.
  int64_t useful(int width) const { return divide_up(rows_ * width, 2 * together_threads); }

  // Clusters must hold all that they sum, and leave half of the device: more of them took longer
  // than blocks that meet at counters (bench_cuda_norm).
  std::optional<TogetherPlan> in_clusters() const {
    const int width = full_width();
    const int64_t most = useful(width), blocks = int64_t(std::bit_floor(uint64_t(most)));
    if (most > largest_cluster || slices(width) * blocks * 2 > multiprocessors_) {
      return std::nullopt;
    }
    const TogetherPlan plan = plan_of(width, blocks, true);
    const bool holds_all = int64_t(plan.share.kept) == vectors(width, plan.share.rows);
    return holds_all ? std::optional(plan) : std::nullopt;
  }

  // Blocks that are all there at once.
  std::optional<TogetherPlan> in_one_wave() const {
    const int width = full_width();
    const int64_t slices = this->slices(width);
    if (slices > std::min(multiprocessors_, barrier_slices)) return std::nullopt;
    const int64_t most = std::min(multiprocessors_ / slices, useful(width));
    return plan_of(width, divide_up(rows_, divide_up(rows_, most)), false);
  }

 private:
  int64_t slices(int width) const { return divide_up(channels_, width * n_); }
  // Of a block with so many rows, the same number for each thread.
  static int64_t vectors(int width, int64_t rows) {
    return divide_up(rows * width, together_threads) * together_threads;
  }

  TogetherPlan plan_of(int width, int64_t blocks, bool is_cluster) const {
    const int64_t pairs = blocks == 1 ? 0 : blocks * width * n_;
    const int64_t rows = divide_up(rows_, blocks), needed = vectors(width, rows);
    const int64_t told_bytes = is_cluster ? pairs * pair_bytes : 0;
    const int64_t room = (shared_ - told_bytes) / vector_bytes;
    const int64_t kept = std::min(needed, room / summed_ / 32 * 32);  // whole warps
    const int64_t more = has_residual_ ? std::min(needed, (room - kept * summed_) / 32 * 32) : 0;
    return {.blocks = unsigned(blocks),
            .slices = unsigned(slices(width)),
            .shared_bytes = size_t((kept * summed_ + more) * vector_bytes + told_bytes),
            .told = is_cluster ? 0 : pairs * slices(width),
            .share = {.width = width,
                      .rows = rows,
                      .kept = int(kept),
                      .more = int(more),
                      .is_cluster = is_cluster}};
  }

  const int multiprocessors_;
  const int64_t shared_, rows_, channels_;
  const int n_, summed_;
  const bool has_residual_;
};

}  // namespace

std::optional<TogetherPlan> plan_together(const Context& context, int64_t rows, int64_t channels,
                                          int n, int summed, bool has_residual) {
  const Planner planner(context, rows, channels, n, summed, has_residual);
  if (planner.useful(planner.full_width()) < 2) return std::nullopt;
  if (context.properties.major >= 9) {
    if (const auto plan = planner.in_clusters()) return plan;
  }
  if (!context.properties.cooperativeLaunch) return std::nullopt;
  return planner.in_one_wave();
}

}  // namespace adret::cuda
