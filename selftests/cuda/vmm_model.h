/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The model of t_cuda_vmm_model.c: memory, handles, descriptors and reservations, what is mapped where with which
 * rights, and how the program draws one of them.
 */
#ifndef VMM_MODEL_H
#define VMM_MODEL_H

#include "cuda_case_util.h"

#define PIECE		(2 * MIB)
#define WINDOW		512
#define MOST_PIECES	3		/* of a memory */
#define MEMORIES	10
#define HANDLES		20
#define FDS		4
#define RESERVATIONS	4
#define PLACES		10		/* pieces of a reservation, at most */
#define POSIX_FD	CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define READS		CU_MEM_ACCESS_FLAGS_PROT_READ
#define WRITES		CU_MEM_ACCESS_FLAGS_PROT_READWRITE

struct memory {
	unsigned int users;		/* handles that live, and descriptors; 0: free */
	CUmemLocationType where;	/* DEVICE, HOST or HOST_NUMA; the id is 0 */
	unsigned int pieces;
	unsigned char seen[MOST_PIECES][2][WINDOW];	/* of each piece: its first bytes, its last */
};

struct handle {
	struct memory *memory;		/* NULL: none */
	CUmemGenericAllocationHandle value;
	unsigned int refs, maps;
	bool closed;			/* cannot be exported: imported, or made without a type */
};

struct fd {
	struct memory *memory;		/* NULL: none */
	int fd;
};

struct place {
	struct handle *handle;		/* NULL: nothing is mapped */
	unsigned int piece;		/* of the memory */
	unsigned int right;		/* of the device */
	unsigned int host;		/* of host locations */
};

struct reservation {
	CUdeviceptr base;
	unsigned int places;		/* 0: none */
	struct place place[PLACES];
};

static struct memory memories[MEMORIES];
static struct handle handles[HANDLES];
static struct fd fds[FDS];
static struct reservation reservations[RESERVATIONS];
static struct rng rng;
static CUmemGenericAllocationHandle old;	/* a value that was valid once */

static inline unsigned int below(unsigned int n)
{
	return rng_below(&rng, n);
}

static inline void memory_leave(struct memory *memory)
{
	memory->users--;
}

static inline struct handle *handle_room(void)
{
	for (unsigned int i = 0; i < HANDLES; i++)
		if (!handles[i].memory)
			return &handles[i];
	return NULL;
}

static inline void handle_enter(struct handle *handle, struct memory *memory, CUmemGenericAllocationHandle value,
				bool closed)
{
	*handle = (struct handle) { memory, value, 1, 0, closed };
	memory->users++;
}

/* After a reference or a mapping went. */
static inline void handle_check(struct handle *handle)
{
	if (handle->refs || handle->maps)
		return;
	old = handle->value;
	memory_leave(handle->memory);
	handle->memory = NULL;
}

/* A handle that lives, or NULL; it may have mappings and no references. */
static inline struct handle *any_handle(void)
{
	struct handle *handle = NULL;

	for (unsigned int tries = 0; tries < 4 && (!handle || !handle->memory); tries++)
		handle = &handles[below(HANDLES)];
	return handle->memory ? handle : NULL;
}

static inline struct reservation *any_reservation(void)
{
	struct reservation *r = NULL;

	for (unsigned int tries = 0; tries < 4 && (!r || !r->places); tries++)
		r = &reservations[below(RESERVATIONS)];
	return r->places ? r : NULL;
}

/* A random place, rather one that is mapped, or rather one that is not. */
static inline unsigned int any_place(const struct reservation *r, bool mapped)
{
	unsigned int i = below(r->places);

	for (unsigned int tries = 0; tries < 3 && mapped != !!r->place[i].handle; tries++)
		i = below(r->places);
	return i;
}

static inline CUdeviceptr at(const struct reservation *r, unsigned int place)
{
	return r->base + (CUdeviceptr)place * PIECE;
}

/* Whether a mapping begins at a place, which may be the reservation's end. */
static inline bool begins(const struct reservation *r, unsigned int place)
{
	return place == r->places || !r->place[place].handle || !r->place[place].piece;
}

/* A random range of places; mostly that of whole mappings. */
static inline void any_range(const struct reservation *r, unsigned int *from, unsigned int *to)
{
	unsigned int most;

	*from = any_place(r, true);
	most = r->places - *from;
	*to = *from + 1 + below(below(3) && most > 3 ? 3 : most);
	if (!below(3))
		return;
	while (!begins(r, *from))
		--*from;
	while (!begins(r, *to))
		++*to;
}

#endif
