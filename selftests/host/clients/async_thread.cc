// SPDX-License-Identifier: GPL-2.0
// The same functions with per-thread default streams.
#define CUDA_API_PER_THREAD_DEFAULT_STREAM
#include "async.cc"
