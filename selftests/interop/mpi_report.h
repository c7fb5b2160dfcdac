/* SPDX-License-Identifier: GPL-2.0 */
/* A case that a library reports which is preloaded into the ranks of an MPI job. */
#ifndef MPI_REPORT_H
#define MPI_REPORT_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * In rank 0 of the job $GPUMEM_MPI_NAME: report whether something that @what names happened, which @count counts.
 * False in a process that is no rank of such a job.
 */
static inline bool report_rank(const char *what, unsigned long count)
{
	const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *name = getenv("GPUMEM_MPI_NAME");

	if (!rank || !name)
		return false;
	if (!strcmp(rank, "0"))
		printf("%s - %s %s\n# %lu times\n", count ? "ok" : "not ok", name, what, count);
	return true;
}

#endif
