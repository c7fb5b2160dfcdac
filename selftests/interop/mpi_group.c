// SPDX-License-Identifier: GPL-2.0
/* Cases of MPI's collectives: every rank compares with what it can compute by itself. */
#include "mpi.h"

static int *ints(size_t count)
{
	int *p = calloc(count ? count : 1, sizeof(*p));

	if (!p)
		fail(__FILE__, __LINE__, "calloc", "no memory");
	return p;
}

/* Element @i of what rank @r gives. */
static int given(int r, size_t i)
{
	return (r + 1) * 1000 + (int)(i % 977);
}

/* Fill @b with this rank's elements. */
static void give(const struct buffer *b)
{
	size_t count = b->size / sizeof(int);
	int *p = ints(count);

	for (size_t i = 0; i < count; i++)
		p[i] = given(rank, i);
	fill_from(b, p);
	free(p);
}

/* How many elements of @b differ from the sum over all ranks, from element @first on. */
static long not_sum(const struct buffer *b, size_t first)
{
	size_t count = b->size / sizeof(int);
	int *p = ints(count);
	long wrong = read_out(b, p);

	for (size_t i = 0; i < count; i++) {
		int sum = 0;

		for (int r = 0; r < ranks; r++)
			sum += given(r, first + i);
		wrong += p[i] != sum;
	}
	free(p);
	return wrong;
}

static long bcast(enum kind kind)
{
	struct buffer b = get(kind, LARGEST);
	long wrong = 0;

	for (int i = 0; i < size_count; i++) {
		int root = i % ranks;

		clear(&b);
		if (rank == root)
			fill(&b, 0, sizes[i], (unsigned int)i);
		MPI(MPI_Bcast(b.at, (int)sizes[i], MPI_BYTE, root, MPI_COMM_WORLD));
		wrong += differs(&b, 0, sizes[i], (unsigned int)i);
	}
	put(&b);
	return wrong;
}

static long allreduce(enum kind kind)
{
	long wrong = 0;

	for (int i = 0; i < size_count; i++) {
		size_t count = sizes[i] / sizeof(int) + 1;
		struct buffer in = get(kind, count * sizeof(int)), out = get(kind, count * sizeof(int));

		give(&in);
		bystander_run();
		MPI(MPI_Allreduce(in.at, out.at, (int)count, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
		wrong += not_sum(&out, 0);
		MPI(MPI_Allreduce(MPI_IN_PLACE, in.at, (int)count, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
		wrong += not_sum(&in, 0);
		put(&in);
		put(&out);
	}
	return wrong;
}

static long reduce(enum kind kind)
{
	long wrong = 0;

	for (int i = 0; i < size_count; i++) {
		size_t each = sizes[i] / sizeof(int) / (size_t)ranks + 1, count = each * (size_t)ranks;
		struct buffer in = get(kind, count * sizeof(int)), out = get(kind, count * sizeof(int));
		struct buffer part = get(kind, each * sizeof(int));

		give(&in);
		MPI(MPI_Reduce(in.at, out.at, (int)count, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD));
		if (!rank)
			wrong += not_sum(&out, 0);
		MPI(MPI_Reduce_scatter_block(in.at, part.at, (int)each, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
		wrong += not_sum(&part, each * (size_t)rank);
		put(&in);
		put(&out);
		put(&part);
	}
	return wrong;
}

/* Every rank gives every other one a part of its own. */
static long alltoall(enum kind kind)
{
	long wrong = 0;

	for (int i = 0; i < size_count; i++) {
		size_t each = sizes[i] / (size_t)ranks + 1;
		struct buffer out = get(kind, each * (size_t)ranks), in = get(kind, each * (size_t)ranks);
		MPI_Request r;

		for (int turn = 0; turn < 2; turn++) {
			for (int k = 0; k < ranks; k++)
				fill(&out, (size_t)k * each, each, (unsigned int)(100 * turn + 10 * rank + k));
			if (turn) {
				MPI(MPI_Ialltoall(out.at, (int)each, MPI_BYTE, in.at, (int)each, MPI_BYTE,
						  MPI_COMM_WORLD, &r));
				MPI(MPI_Wait(&r, MPI_STATUS_IGNORE));
			} else {
				MPI(MPI_Alltoall(out.at, (int)each, MPI_BYTE, in.at, (int)each, MPI_BYTE,
						 MPI_COMM_WORLD));
			}
			for (int k = 0; k < ranks; k++)
				wrong += differs(&in, (size_t)k * each, each,
						 (unsigned int)(100 * turn + 10 * k + rank));
		}
		put(&out);
		put(&in);
	}
	return wrong;
}

static long gather(enum kind kind)
{
	long wrong = 0;

	for (int i = 0; i < size_count; i++) {
		size_t each = sizes[i] / (size_t)ranks + 1;
		struct buffer one = get(kind, each), all = get(kind, each * (size_t)ranks);

		fill(&one, 0, each, (unsigned int)rank);
		MPI(MPI_Allgather(one.at, (int)each, MPI_BYTE, all.at, (int)each, MPI_BYTE, MPI_COMM_WORLD));
		for (int k = 0; k < ranks; k++)
			wrong += differs(&all, (size_t)k * each, each, (unsigned int)k);
		clear(&one);
		MPI(MPI_Scatter(all.at, (int)each, MPI_BYTE, one.at, (int)each, MPI_BYTE, 0,
				MPI_COMM_WORLD));
		wrong += differs(&one, 0, each, (unsigned int)rank);
		clear(&all);
		MPI(MPI_Gather(one.at, (int)each, MPI_BYTE, all.at, (int)each, MPI_BYTE, ranks - 1,
			       MPI_COMM_WORLD));
		for (int k = 0; k < ranks && rank == ranks - 1; k++)
			wrong += differs(&all, (size_t)k * each, each, (unsigned int)k);
		put(&one);
		put(&all);
	}
	return wrong;
}

const struct mpi_case group_cases[] = {
	{ "bcast", bcast }, { "allreduce", allreduce }, { "reduce", reduce }, { "alltoall", alltoall },
	{ "gather", gather }, { NULL, NULL },
};
