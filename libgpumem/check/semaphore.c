// SPDX-License-Identifier: MIT
/*
 * External semaphores: which handles name the same one, and what comes before a wait.
 *
 * Signals and waits have ranks. A signal of a timeline semaphore has its value as its rank, and a wait has the value
 * that it waits for. The signals of a binary semaphore are numbered as they run, its waits as they are submitted. A
 * wait is over when a signal of its rank or of a higher one is done. If several of these signals are not ordered, any
 * of them may be the first. The wait then comes after an operation only if each of them does. So a rank has one clock
 * for all signals of at least this rank. The clock of a binary semaphore's rank n has in each slot the n-th lowest time
 * of all signals: of any n signals, one has at least this time.
 *
 * A semaphore is *shared* if another process may have it. The other process may have signalled it after a signal of a
 * shared semaphore, or after a record of an event that other processes have. So a wait comes after all of these
 * (@published). The waits of other processes for a binary semaphore are not seen, so which signal ends a wait for a
 * shared one is not known.
 *
 * The kernel shows a number for each semaphore in the fdinfo of its descriptors, by which two handles of one semaphore
 * are recognized. An import without a number is *unidentified*: it may be any semaphore, or a fence of this process's
 * work.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check/check.h"

#define TABLE	256u

struct handle {
	uint64_t value;
	struct semaphore *semaphore;	/* a reference */
	struct handle *next;
};

struct clock published;

static struct handle *handles[TABLE];

static struct handle **handle_at(uint64_t value)
{
	struct handle **at;

	for (at = &handles[value % TABLE]; *at && (*at)->value != value; at = &(*at)->next)
		;
	return at;
}

struct semaphore *semaphore_of(uint64_t value)
{
	const struct handle *handle = *handle_at(value);

	return handle ? handle->semaphore : NULL;
}

struct semaphore *semaphore_hold(struct semaphore *semaphore)
{
	if (semaphore)
		semaphore->refs++;
	return semaphore;
}

void semaphore_drop(struct semaphore *semaphore)
{
	unsigned int i;

	if (!semaphore || --semaphore->refs)
		return;
	for (i = 0; i < semaphore->count; i++)
		clock_free(&semaphore->rank[i].clock);
	clock_free(&semaphore->all);
	free(semaphore);
}

void semaphore_remove(uint64_t value)
{
	struct handle **at = handle_at(value), *handle = *at;

	if (!handle)
		return;
	*at = handle->next;
	semaphore_drop(handle->semaphore);
	free(handle);
}

static struct semaphore *semaphore_numbered(uint64_t number)
{
	const struct handle *handle;
	unsigned int i;

	for (i = 0; number && i < TABLE; i++)
		for (handle = handles[i]; handle; handle = handle->next)
			if (handle->semaphore->number == number)
				return handle->semaphore;
	return NULL;
}

/* Takes the reference to @semaphore. */
static void handle_add(uint64_t value, struct semaphore *semaphore)
{
	struct handle *handle = semaphore ? calloc(1, sizeof(*handle)) : NULL, **list = &handles[value % TABLE];

	/* The end of a context destroys semaphores without a call. */
	semaphore_remove(value);
	if (!handle) {
		semaphore_drop(semaphore);
		return;
	}
	handle->value = value;
	handle->semaphore = semaphore;
	handle->next = *list;
	*list = handle;
}

static struct semaphore *semaphore_new(bool binary, uint64_t value)
{
	struct semaphore *semaphore = calloc(1, sizeof(*semaphore));

	if (!semaphore)
		return NULL;
	semaphore->refs = 1;
	semaphore->counts = binary;
	semaphore->top = semaphore->first = value;
	return semaphore;
}

void semaphore_made(uint64_t handle, bool binary, uint64_t value)
{
	handle_add(handle, semaphore_new(binary, value));
}

void semaphore_imported(uint64_t handle, bool binary, uint64_t number)
{
	struct semaphore *semaphore = semaphore_hold(semaphore_numbered(number));

	if (!semaphore) {
		semaphore = semaphore_new(binary, 0);
		if (!semaphore)
			return;
		semaphore->number = number;
		semaphore->shared = true;
		semaphore->unidentified = !number;
	}
	handle_add(handle, semaphore);
}

void semaphore_exported(uint64_t handle, uint64_t number)
{
	struct semaphore *semaphore = semaphore_of(handle);

	if (!semaphore)
		return;
	if (number)
		semaphore->number = number;
	if (!semaphore->shared)
		clock_join(&published, &semaphore->all);
	semaphore->shared = true;
	steps_published(semaphore);
}

uint64_t semaphore_number(int fd)
{
	static const char key[] = "gpumem-semaphore:";
	char path[48], text[512];
	uint64_t number = 0;
	ssize_t length = 0;
	const char *at;
	int info, cancel;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	/* The thread has the lock. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	info = open(path, O_RDONLY | O_CLOEXEC);
	if (info >= 0) {
		length = read(info, text, sizeof(text) - 1);
		close(info);
	}
	pthread_setcancelstate(cancel, NULL);
	text[length > 0 ? length : 0] = '\0';
	at = strstr(text, key);
	if (at)
		number = strtoull(at + strlen(key), NULL, 10);
	return number;
}

/* ---- order */

/* The lowest rank that is known and at least @rank, or count. */
static unsigned int rank_find(const struct semaphore *semaphore, uint64_t rank)
{
	unsigned int i;

	for (i = 0; i < semaphore->count && semaphore->rank[i].rank < rank; i++)
		;
	return i;
}

/* Make a place for a rank; its index. */
static unsigned int rank_add(struct semaphore *semaphore, uint64_t rank)
{
	unsigned int at;

	/* Waits for the rank that is forgotten come after more than they have to. */
	if (semaphore->count == SEMAPHORE_RANKS) {
		clock_free(&semaphore->rank[0].clock);
		memmove(semaphore->rank, semaphore->rank + 1, --semaphore->count * sizeof(semaphore->rank[0]));
	}
	at = rank_find(semaphore, rank);
	memmove(semaphore->rank + at + 1, semaphore->rank + at, (semaphore->count - at) * sizeof(semaphore->rank[0]));
	memset(&semaphore->rank[at], 0, sizeof(semaphore->rank[at]));
	semaphore->rank[at].rank = rank;
	semaphore->count++;
	return at;
}

void semaphore_signal(struct semaphore *semaphore, uint64_t value, const struct clock *clock)
{
	uint64_t rank = semaphore->counts ? semaphore->top + 1 : value;
	unsigned int at = rank_find(semaphore, rank), i;

	clock_join(&semaphore->all, clock);
	if (semaphore->shared)
		clock_join(&published, clock);
	/* A value that is not higher changes nothing. */
	if (rank <= semaphore->first)
		return;
	if (at == semaphore->count || semaphore->rank[at].rank != rank) {
		at = rank_add(semaphore, rank);
		clock_copy(&semaphore->rank[at].clock, clock);
		if (!semaphore->counts && at + 1 < semaphore->count)
			clock_meet(&semaphore->rank[at].clock, &semaphore->rank[at + 1].clock);
	} else {
		clock_meet(&semaphore->rank[at].clock, clock);
	}
	for (i = at; i--; ) {
		if (semaphore->counts)
			clock_sort(&semaphore->rank[i].clock, &semaphore->rank[i + 1].clock);
		else
			clock_meet(&semaphore->rank[i].clock, clock);
	}
	if (semaphore->top < rank)
		semaphore->top = rank;
}

const struct clock *semaphore_clock(const struct semaphore *semaphore, uint64_t rank)
{
	unsigned int at = rank_find(semaphore, rank);

	return rank <= semaphore->first || at == semaphore->count ? NULL : &semaphore->rank[at].clock;
}
