// SPDX-License-Identifier: GPL-2.0
/* Batches of copies, in the form of CUDA 13. */
#include <cuda_runtime.h>
#include <vector>

int main()
{
	std::vector<void *> dsts(2);
	std::vector<const void *> srcs(2);
	std::vector<size_t> sizes(2, 4096);
	std::vector<char> host(8192);
	cudaMemcpyAttributes attrs = {};
	cudaMemcpy3DBatchOp op = {};
	size_t first = 0;
	cudaStream_t stream;

	if (cudaStreamCreate(&stream))
		return 1;
	for (size_t i = 0; i < dsts.size(); i++) {
		cudaMalloc(&dsts[i], sizes[i]);
		srcs[i] = host.data() + i * sizes[i];
	}
	attrs.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
	cudaMemcpyBatchAsync(dsts.data(), srcs.data(), sizes.data(), dsts.size(), &attrs, &first, 1, stream);
	op.src.type = op.dst.type = cudaMemcpyOperandTypePointer;
	op.src.op.ptr.ptr = dsts[0];
	op.dst.op.ptr.ptr = dsts[1];
	op.extent = make_cudaExtent(64, 8, 1);
	op.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
	cudaMemcpy3DBatchAsync(1, &op, 0, stream);
	return cudaStreamSynchronize(stream);
}
