// SPDX-License-Identifier: GPL-2.0
/* Cases of MPI's one-sided communication and of its files. */
#include "mpi.h"

/* The neighbour's window is this rank's target. */
static long fence(enum kind kind)
{
	int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
	long wrong = 0;

	for (int i = 0; i < size_count; i++) {
		int size = (int)sizes[i];
		struct buffer window = get(kind, sizes[i]), out = get(kind, sizes[i]), in = get(kind, sizes[i]);
		MPI_Win w;

		MPI(MPI_Win_create(window.at, size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &w));
		fill(&out, 0, sizes[i], (unsigned int)rank);
		MPI(MPI_Win_fence(0, w));
		MPI(MPI_Put(out.at, size, MPI_BYTE, next, 0, size, MPI_BYTE, w));
		MPI(MPI_Win_fence(0, w));
		wrong += differs(&window, 0, sizes[i], (unsigned int)before);
		MPI(MPI_Win_fence(0, w));
		MPI(MPI_Get(in.at, size, MPI_BYTE, next, 0, size, MPI_BYTE, w));
		MPI(MPI_Win_fence(0, w));
		wrong += differs(&in, 0, sizes[i], (unsigned int)rank);
		MPI(MPI_Win_free(&w));
		put(&window);
		put(&out);
		put(&in);
	}
	return wrong;
}

#define COUNT	5000

/* All ranks add to rank 0's window and count there. */
static long accumulate(enum kind kind)
{
	struct buffer window = get(kind, (COUNT + 2) * sizeof(int)), out = get(kind, COUNT * sizeof(int));
	struct buffer old = get(kind, sizeof(int)), one = get(kind, sizeof(int));
	static int model[COUNT + 2], value[COUNT];
	int first = 1, seen, got, sum = 0;
	long wrong = 0;
	MPI_Win w;

	for (int i = 0; i < COUNT + 2; i++)
		model[i] = 0;
	fill_from(&window, model);
	for (int i = 0; i < COUNT; i++)
		value[i] = (rank + 1) * 7 + i;
	fill_from(&out, value);
	fill_from(&one, &first);
	MPI(MPI_Win_create(window.at, (MPI_Aint)window.size, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &w));
	MPI(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w));
	MPI(MPI_Accumulate(out.at, COUNT, MPI_INT, 0, 0, COUNT, MPI_INT, MPI_SUM, w));
	MPI(MPI_Win_flush(0, w));
	MPI(MPI_Fetch_and_op(one.at, old.at, MPI_INT, 0, COUNT, MPI_SUM, w));
	MPI(MPI_Win_unlock(0, w));
	wrong += read_out(&old, &got) + (got < 0 || got >= ranks);
	MPI(MPI_Allreduce(&got, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
	wrong += sum != ranks * (ranks - 1) / 2;
	/* One rank alone finds 0 at the end, and swaps its number in. */
	first = rank + 1;
	fill_from(&one, &first);
	MPI(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w));
	seen = 0;
	fill_from(&out, value);
	{
		struct buffer zero = get(kind, sizeof(int));

		fill_from(&zero, &seen);
		MPI(MPI_Compare_and_swap(one.at, zero.at, old.at, MPI_INT, 0, COUNT + 1, w));
		MPI(MPI_Win_flush(0, w));
		put(&zero);
	}
	MPI(MPI_Win_unlock(0, w));
	wrong += read_out(&old, &got);
	got = !got;
	MPI(MPI_Allreduce(&got, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
	wrong += sum != 1;
	MPI(MPI_Barrier(MPI_COMM_WORLD));
	if (!rank) {
		/* The owner reads its window between a lock and an unlock. */
		MPI(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w));
		wrong += read_out(&window, model);
		MPI(MPI_Win_unlock(0, w));
		for (int i = 0; i < COUNT; i++)
			wrong += model[i] != 7 * ranks * (ranks + 1) / 2 + ranks * i;
		wrong += model[COUNT] != ranks;
	}
	MPI(MPI_Win_free(&w));
	put(&window);
	put(&out);
	put(&old);
	put(&one);
	return wrong;
}

/* Put and get under a lock, with flushes; every rank writes to a part of every window. */
static long lock(enum kind kind)
{
	long wrong = 0;

	for (int i = 0; i < size_count; i++) {
		size_t each = sizes[i] / (size_t)ranks + 1;
		struct buffer window = get(kind, each * (size_t)ranks), out = get(kind, each), in = get(kind, each);
		MPI_Win w;

		MPI(MPI_Win_create(window.at, (MPI_Aint)window.size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &w));
		MPI(MPI_Win_lock_all(0, w));
		for (int k = 0; k < ranks; k++) {
			fill(&out, 0, each, (unsigned int)(10 * rank + k));
			MPI(MPI_Put(out.at, (int)each, MPI_BYTE, k, (MPI_Aint)(each * (size_t)rank), (int)each,
				    MPI_BYTE, w));
			MPI(MPI_Win_flush(k, w));
			MPI(MPI_Get(in.at, (int)each, MPI_BYTE, k, (MPI_Aint)(each * (size_t)rank), (int)each,
				    MPI_BYTE, w));
			MPI(MPI_Win_flush(k, w));
			wrong += differs(&in, 0, each, (unsigned int)(10 * rank + k));
		}
		MPI(MPI_Win_unlock_all(w));
		MPI(MPI_Barrier(MPI_COMM_WORLD));
		MPI(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, w));
		for (int k = 0; k < ranks; k++)
			wrong += differs(&window, (size_t)k * each, each, (unsigned int)(10 * k + rank));
		MPI(MPI_Win_unlock(rank, w));
		MPI(MPI_Win_free(&w));
		put(&window);
		put(&out);
		put(&in);
	}
	return wrong;
}

/* A file that all ranks share: written and read collectively, in stripes, and by one rank alone. */
static long file(enum kind kind)
{
	const char *where = getenv("GPUMEM_MPI_FILE");
	int next = (rank + 1) % ranks;
	MPI_Datatype stripes;
	MPI_Request r;
	long wrong = 0;
	MPI_File f;

	if (!where)
		fail(__FILE__, __LINE__, "GPUMEM_MPI_FILE", "not set");
	for (int i = 0; i < size_count; i++) {
		int size = (int)sizes[i], blocks = 8, each = size / blocks + 1;
		struct buffer out = get(kind, (size_t)(each * blocks)), in = get(kind, (size_t)(each * blocks));

		MPI(MPI_File_open(MPI_COMM_WORLD, where, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f));
		fill(&out, 0, (size_t)(each * blocks), (unsigned int)(rank + i));
		MPI(MPI_File_write_at_all(f, (MPI_Offset)rank * each * blocks, out.at, each * blocks, MPI_BYTE,
					  MPI_STATUS_IGNORE));
		MPI(MPI_File_sync(f));
		MPI(MPI_Barrier(MPI_COMM_WORLD));
		MPI(MPI_File_sync(f));
		MPI(MPI_File_iread_at(f, (MPI_Offset)next * each * blocks, in.at, each * blocks, MPI_BYTE, &r));
		MPI(MPI_Wait(&r, MPI_STATUS_IGNORE));
		wrong += differs(&in, 0, (size_t)(each * blocks), (unsigned int)(next + i));
		MPI(MPI_Barrier(MPI_COMM_WORLD));
		/* Each rank has every ranks-th block. */
		MPI(MPI_Type_vector(blocks, each, each * ranks, MPI_BYTE, &stripes));
		MPI(MPI_Type_commit(&stripes));
		MPI(MPI_File_set_view(f, (MPI_Offset)rank * each, MPI_BYTE, stripes, "native", MPI_INFO_NULL));
		MPI(MPI_File_write_all(f, out.at, each * blocks, MPI_BYTE, MPI_STATUS_IGNORE));
		MPI(MPI_File_sync(f));
		MPI(MPI_Barrier(MPI_COMM_WORLD));
		clear(&in);
		MPI(MPI_File_seek(f, 0, MPI_SEEK_SET));
		MPI(MPI_File_read_all(f, in.at, each * blocks, MPI_BYTE, MPI_STATUS_IGNORE));
		wrong += differs(&in, 0, (size_t)(each * blocks), (unsigned int)(rank + i));
		MPI(MPI_Type_free(&stripes));
		MPI(MPI_File_close(&f));
		put(&out);
		put(&in);
	}
	if (!rank)
		MPI(MPI_File_delete(where, MPI_INFO_NULL));
	MPI(MPI_Barrier(MPI_COMM_WORLD));
	return wrong;
}

const struct mpi_case window_cases[] = {
	{ "window-fence", fence }, { "window-lock", lock }, { "window-accumulate", accumulate },
	{ "file", file }, { NULL, NULL },
};
