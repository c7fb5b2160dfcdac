// SPDX-License-Identifier: GPL-2.0
/* Preloaded into ranks of Debian's OpenMPI: its library then uses a plugin for CUDA. */
#include <stdbool.h>

bool opal_built_with_cuda_support = true;
