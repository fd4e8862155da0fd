// Keeps a thread's kernel calls as a list that can be run again.
#pragma once

#include <adret/core/backend.h>
#include <adret/core/kernels/rewrite.h>
#include <adret/core/storage.h>
#include <adret/core/tensor.h>

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

namespace adret {

// Note [Recordings]
// Memory that was made while recording has come and gone by the end. In the list placeholders stand
// for it, in the order of their first use: an operand in it has the placeholder as storage, and as
// data the bytes from its start. Memory from before, as parameters and inputs, is kept alive and
// stands for itself. So two recordings of one computation are alike but for their placeholders.
struct Recording {
  std::deque<RewrittenCall> calls;
  std::vector<std::string> places;  // of each call, current_place()
  std::vector<IntrusivePtr<Storage>> placeholders, kept;
  std::vector<TensorView> outputs;  // what was named at the end
  Device device;
  // Why it cannot be run again in place of the computation; empty if it can.
  std::string obstacle;
};

// The place in `placeholders` of each of them.
std::unordered_map<const Storage*, size_t> number_placeholders(const Recording& recording);

class Recorder final : public Decorator {
 public:
  Recorder();
  void run(const Kernel& call) override;
  void host_access(CopyKind kind, size_t bytes) override;
  // What only the caller knows of. The first one stays.
  void add_obstacle(const std::string& why);

  // Ends the recording. `outputs` are what is read after a replay; other memory that was made
  // meanwhile and is still there is an obstacle, as a replay would not renew it.
  Recording finish(const std::vector<Tensor>& outputs);

 private:
  struct Made {
    IntrusivePtr<StorageLife> life;
    IntrusivePtr<Storage> placeholder;
    std::string what;  // shape and place of the first use
    bool output = false;
  };
  TensorView recorded(const TensorView& view);
  // Whether it was made while recording, and no call has touched it yet.
  bool is_unwritten(const TensorView& view) const;
  void check_operands(const Kernel& call);
  Made& made(const TensorView& view);
  void check_device(const Kernel& call);

  const uint64_t first_id_;  // of storages that are made from here on
  Recording recording_;
  std::vector<Made> made_;
  std::unordered_map<const Storage*, size_t> index_;  // into made_; of the latest storage there
};

// Empty if two recordings are the same computation on the same memory; else the first difference,
// as part of a sentence: "call 7 was ..., then ...".
std::string first_difference(const Recording& before, const Recording& after);

}  // namespace adret
