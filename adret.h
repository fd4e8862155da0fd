// All of Adret's public headers.
#pragma once

#include <adret/autograd/engine.h>
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/gradcheck.h>
#include <adret/autograd/node.h>
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/conv.h>
#include <adret/autograd/ops/dropout.h>
#include <adret/autograd/ops/inplace.h>
#include <adret/autograd/ops/loss.h>
#include <adret/autograd/ops/matmul.h>
#include <adret/autograd/ops/norm.h>
#include <adret/autograd/ops/pool.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/shape.h>
#include <adret/autograd/ops/softmax.h>
#include <adret/autograd/saved_tensor.h>
#include <adret/core/backend.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/memory_pool.h>
#include <adret/core/random.h>
#include <adret/core/tensor.h>
#include <adret/core/tensor_view.h>
#include <adret/core/thread_pool.h>
