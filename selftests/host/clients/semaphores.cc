// SPDX-License-Identifier: GPL-2.0
/* Timeline semaphores of another API, by descriptor. */
#include <cuda_runtime.h>

static cudaError_t exchange(int fd, cudaStream_t stream)
{
	cudaExternalSemaphoreHandleDesc desc = {};
	cudaExternalSemaphoreSignalParams signal = {};
	cudaExternalSemaphoreWaitParams wait = {};
	cudaExternalSemaphore_t semaphore;

	desc.type = cudaExternalSemaphoreHandleTypeTimelineSemaphoreFd;
	desc.handle.fd = fd;
	if (cudaError_t error = cudaImportExternalSemaphore(&semaphore, &desc))
		return error;
	wait.params.fence.value = 1;
	signal.params.fence.value = 2;
	cudaWaitExternalSemaphoresAsync(&semaphore, &wait, 1, stream);
	cudaSignalExternalSemaphoresAsync(&semaphore, &signal, 1, stream);
	return cudaDestroyExternalSemaphore(semaphore);
}

int main()
{
	return exchange(-1, nullptr);
}
