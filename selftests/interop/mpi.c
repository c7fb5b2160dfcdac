// SPDX-License-Identifier: GPL-2.0
/*
 * Cases of MPI with device memory as the buffers, for an MPI that knows nothing of devices.
 *
 *   mpi NAME RANKS KIND... [-- CASE...]
 *
 * Every rank runs each case in each kind of memory.  Rank 0 prints "ok - NAME KIND-CASE" or
 * "not ok - ..." for the sum of what all ranks found wrong.  RANKS: how many ranks there must be.  The
 * kinds are those of mpi.h; "host" is plain memory, the control.  CASE: only these.
 */
#include <string.h>

#include "mpi.h"

int rank, ranks;

_Noreturn void fail(const char *file, int line, const char *what, const char *why)
{
	fprintf(stderr, "rank %d: %s:%d: %s: %s\n", rank, file, line, what, why);
	MPI_Abort(MPI_COMM_WORLD, 1);
	exit(1);
}

const char *cu_text(CUresult r)
{
	const char *s = NULL;

	return cuGetErrorName(r, &s) || !s ? "?" : s;
}

const char *mpi_text(int r)
{
	static char text[MPI_MAX_ERROR_STRING];
	int length;

	MPI_Error_string(r, text, &length);
	return text;
}

static void run(const char *name, const struct mpi_case *c, enum kind kind)
{
	long wrong, all = 0;
	double begin = MPI_Wtime();

	wrong = c->run(kind) + bystander_differs();
	if (wrong)
		fprintf(stderr, "rank %d: %s %s: %ld wrong\n", rank, kind_name[kind], c->name, wrong);
	MPI(MPI_Allreduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
	if (!rank) {
		printf("%s - %s %s-%s\n", all ? "not ok" : "ok", name, kind_name[kind], c->name);
		printf("# %.1f seconds\n", MPI_Wtime() - begin);
		fflush(stdout);
	}
}

static bool wanted(const char *name, char **words)
{
	if (!*words)
		return true;
	for (; *words; words++)
		if (!strcmp(*words, name))
			return true;
	return false;
}

int main(int argc, char **argv)
{
	const struct mpi_case *lists[] = { point_cases, group_cases, window_cases };
	char **only = argv + 3;

	/* OpenMPI's shared memory for CUDA (btl/smcuda) needs a context in MPI_Init(). */
	memory_begin();
	MPI_Init(&argc, &argv);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (argc < 4 || ranks != atoi(argv[2]))
		fail(__FILE__, __LINE__, "mpi NAME RANKS KIND... [-- CASE...]", "wrong use");
	while (*only && strcmp(*only, "--"))
		only++;
	if (*only)
		*only++ = NULL;
	for (char **word = argv + 3; *word; word++) {
		int kind = 0;

		while (kind < KINDS && strcmp(*word, kind_name[kind]))
			kind++;
		if (kind == KINDS)
			fail(__FILE__, __LINE__, *word, "no kind of memory");
		choose_sizes((enum kind)kind);
		for (size_t l = 0; l < sizeof(lists) / sizeof(lists[0]); l++)
			for (const struct mpi_case *c = lists[l]; c->name; c++)
				if (wanted(c->name, only))
					run(argv[1], c, (enum kind)kind);
	}
	MPI_Finalize();
	memory_end();
	return 0;
}
