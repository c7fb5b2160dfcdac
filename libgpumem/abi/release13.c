// SPDX-License-Identifier: MIT
/* The ordinary driver library: the release of NVIDIA's driver that brought CUDA 13.0. */
#include "abi/release.h"

const int release_cuda = 13000;
const char release_driver[] = "580.0", release_nvml[] = "13.580.0";
