// A ring of memory that copies are started from: where the next piece goes, and what must be done
// first.
#pragma once

#include <algorithm>
#include <cstddef>

namespace adret::cuda {

// The ring is used in parts, in turn. Copies end in the order in which they are started, so one
// mark behind the last copy from a part tells when all of it may be written again.
class Ring {
 public:
  constexpr Ring(size_t part_bytes, size_t parts) : part_bytes_(part_bytes), parts_(parts) {}

  struct Piece {
    size_t offset, bytes;
  };
  // Room for the next `wanted` bytes, or as many as one piece can have. Before it goes on to
  // another part calls mark(part) for the one that it leaves, then wait(part) for the one that it
  // enters, which has no mark in the first round. When one of them throws, nothing has changed.
  template <class Mark, class Wait>
  Piece take(size_t wanted, const Mark& mark, const Wait& wait) {
    const size_t bytes = std::min(wanted, part_bytes_);
    if (bytes > part_bytes_ - used_) {
      const size_t next = (part_ + 1) % parts_;
      mark(part_);
      wait(next);
      part_ = next;
      used_ = 0;
    }
    const Piece piece{part_ * part_bytes_ + used_, bytes};
    used_ = std::min(part_bytes_, (used_ + bytes + alignment - 1) / alignment * alignment);
    return piece;
  }

  size_t bytes() const { return part_bytes_ * parts_; }

 private:
  static constexpr size_t alignment = 64;

  size_t part_bytes_, parts_;
  size_t part_ = 0, used_ = 0;
};

}  // namespace adret::cuda
