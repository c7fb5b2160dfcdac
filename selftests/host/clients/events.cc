// SPDX-License-Identifier: GPL-2.0
// Events with flags, in a class as programs have them.
#include <cuda_runtime.h>

class Event {
public:
	explicit Event(unsigned int flags) { cudaEventCreate(&event_, flags); }
	~Event() { cudaEventDestroy(event_); }
	cudaError_t record(cudaStream_t stream = nullptr) { return cudaEventRecord(event_, stream); }
private:
	cudaEvent_t event_ = nullptr;
};

int main()
{
	cudaEvent_t plain;
	Event event(cudaEventDisableTiming);

	return cudaEventCreate(&plain) != cudaSuccess || event.record() != cudaSuccess;
}
