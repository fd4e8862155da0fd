// The checks of a certificate; see Note [Certificates] in certify.h.
#pragma once

#include <adret/certify/certificate.h>
#include <adret/certify/subject_copy.h>

#include <string>

namespace adret::certify_checks {

struct Finding {
  Verdict verdict = Verdict::passed;
  std::string reason = {};
};
// Failed for `reason`, with what to do; passed if it is empty.
Finding failed_for(const std::string& reason, const std::string& advice);
inline Finding skipped(const std::string& why) { return {Verdict::skipped, why}; }
bool takes(const CertifyTask& task, DType dtype);
// What is wrong, at some elements, with the gradients where all are wanted; `batch` as in Setting.
std::string wrong_together(const CertifyTask& task, bool training, int64_t batch);
inline const char* mode_name(bool training) { return training ? "training" : "evaluation"; }

// Each throws what the layer throws, which is a failure.
Finding runs(const CertifyTask& task);
Finding copies(const CertifyTask& task);
Finding gradients(const CertifyTask& task);
Finding second_derivative(const CertifyTask& task);
Finding parameters(const CertifyTask& task);
Finding state(const CertifyTask& task);
Finding conversion(const CertifyTask& task, Device other);  // the CPU: there is no other
Finding batch_sizes(const CertifyTask& task);
Finding samples_apart(const CertifyTask& task);
Finding repeatable(const CertifyTask& task, Device device);
Finding inputs_untouched(const CertifyTask& task);
Finding evaluation(const CertifyTask& task);
Finding in_dtype(const CertifyTask& task, DType dtype);
Finding on_device(const CertifyTask& task, Device device, DType dtype);
Finding captured_step(const CertifyTask& task, Device device);
Finding flat_memory(const CertifyTask& task, Device device);

}  // namespace adret::certify_checks
