// Refers to every CUDA kernel strongly, so that a missing one is a link error that names it.
#define NYSTROM_CUDA_KERNELS_REQUIRED
#include "core/kernels.h"
