// The costs of the kernels of attention and of its convolution.
#pragma once

#include "train/plan/kernel_cost.h"

namespace nystrom {

/// The costs of the kernels of these names.
KernelCost attention_cost(const KernelCall& call);
KernelCost attention_grad_cost(const KernelCall& call);
KernelCost attention_with_conv_cost(const KernelCall& call);
KernelCost attention_grad_with_conv_cost(const KernelCall& call);
KernelCost conv_cost(const KernelCall& call);
KernelCost conv_grad_cost(const KernelCall& call);

}  // namespace nystrom
