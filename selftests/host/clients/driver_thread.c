// SPDX-License-Identifier: GPL-2.0
// The driver API with per-thread default streams.
#define CUDA_API_PER_THREAD_DEFAULT_STREAM
#include <cuda.h>

int main(void)
{
	return cuMemcpyHtoDAsync(0, "", 0, 0) || cuStreamSynchronize(CU_STREAM_PER_THREAD);
}
