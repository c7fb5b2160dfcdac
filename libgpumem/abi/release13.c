// SPDX-License-Identifier: MIT
/* The ordinary driver library: the release of NVIDIA's driver that brought CUDA 13.3. */
#include "abi/release.h"

const int release_cuda = 13030;
const char release_driver[] = "610.0", release_nvml[] = "13.610.0";
