// SPDX-License-Identifier: GPL-2.0
/*
 * Pass device memory around a ring of MPI ranks, from device to device.
 *
 *   mpicc -I libgpumem/include examples/mpi_ring.c -L build/compat -lcudart -o mpi_ring
 *   mpirun -np 2 -x LD_LIBRARY_PATH=$PWD/build/compat ./mpi_ring
 *
 * Device pointers go straight to MPI, though this MPI need not know of devices.  MPI must not read
 * what a stream has not finished writing: wait for the stream or its event before the call.
 */
#include <stdio.h>
#include <stdlib.h>

#include <cuda_runtime_api.h>
#include <mpi.h>

#define COUNT	100000

#define CUDA(call)							\
	do {								\
		cudaError_t e_ = (call);				\
		if (e_) {						\
			fprintf(stderr, #call ": %s\n", cudaGetErrorString(e_));	\
			MPI_Abort(MPI_COMM_WORLD, 1);			\
		}							\
	} while (0)

int main(int argc, char **argv)
{
	int rank, ranks, wrong = 0, all, *out, *in, *host;
	size_t bytes = COUNT * sizeof(int);
	cudaStream_t stream;
	cudaEvent_t written;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);

	CUDA(cudaStreamCreate(&stream));
	CUDA(cudaEventCreate(&written));
	CUDA(cudaMallocHost((void **)&host, bytes));
	CUDA(cudaMalloc((void **)&out, bytes));
	CUDA(cudaMalloc((void **)&in, bytes));

	/* The device's engine writes this rank's numbers. */
	for (int i = 0; i < COUNT; i++)
		host[i] = rank * COUNT + i;
	CUDA(cudaMemcpyAsync(out, host, bytes, cudaMemcpyHostToDevice, stream));
	CUDA(cudaEventRecord(written, stream));

	for (int step = 1; step <= ranks; step++) {
		int from = (rank + ranks - step) % ranks;

		CUDA(cudaEventSynchronize(written));
		MPI_Sendrecv(out, COUNT, MPI_INT, (rank + 1) % ranks, 0, in, COUNT, MPI_INT,
			     (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);

		/* What came is the next thing to send: the engine copies it. */
		CUDA(cudaMemcpyAsync(out, in, bytes, cudaMemcpyDeviceToDevice, stream));
		CUDA(cudaEventRecord(written, stream));
		CUDA(cudaMemcpyAsync(host, in, bytes, cudaMemcpyDeviceToHost, stream));
		CUDA(cudaStreamSynchronize(stream));
		for (int i = 0; i < COUNT; i++)
			wrong += host[i] != from * COUNT + i;
	}

	MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (!rank)
		printf("%d ranks, %d wrong numbers\n", ranks, all);

	CUDA(cudaFree(out));
	CUDA(cudaFree(in));
	CUDA(cudaFreeHost(host));
	CUDA(cudaEventDestroy(written));
	CUDA(cudaStreamDestroy(stream));
	MPI_Finalize();
	return all != 0;
}
