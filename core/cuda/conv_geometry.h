// A convolution's sizes as kernels take them.
#pragma once

#include <adret/core/cuda/conv_problem.h>

namespace adret::cuda {

// As ConvProblem, in 32 bits; offsets into operands are 64 bits wide.
struct ConvGeometry {
  int n, h, w, c, o, kh, kw, oh, ow;
  int stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w;
  int channels, outputs;  // of a group

  explicit ConvGeometry(const ConvProblem& p)
      : n(int(p.n)),
        h(int(p.h)),
        w(int(p.w)),
        c(int(p.c)),
        o(int(p.o)),
        kh(int(p.kh)),
        kw(int(p.kw)),
        oh(int(p.oh)),
        ow(int(p.ow)),
        stride_h(int(p.stride_h)),
        stride_w(int(p.stride_w)),
        padding_h(int(p.padding_h)),
        padding_w(int(p.padding_w)),
        dilation_h(int(p.dilation_h)),
        dilation_w(int(p.dilation_w)),
        channels(int(p.channels())),
        outputs(int(p.outputs())) {}
};

}  // namespace adret::cuda
