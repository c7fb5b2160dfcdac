// SPDX-License-Identifier: MIT
/*
 * The driver library of gpumem/cuda12: the last release of NVIDIA's driver for CUDA 12.
 *
 * Programs of CUDA 12 look for a name with _v2 before they take the name without it. CUDA 13 gave
 * some names a second version with other arguments. Such programs would call it with the first
 * version's arguments, so this library does not export it.
 */
#include "abi/release.h"

const int release_cuda = 12090;
const char release_driver[] = "575.0", release_nvml[] = "12.575.0";
