/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Edges between two streams for t_cuda_property.c: what the second one gets next waits for what the first one has.
 *
 * An edge is a signal and a wait of one or several semaphores, or a write of a word and a wait for its value.  The
 * two calls of an edge use two handles of a semaphore, one of them imported.  A binary semaphore is signalled again
 * only after the wait for its last signal.  Otherwise the second signal could end the first wait.  Each stream raises
 * a timeline of its own, so the values rise in the order of the calls.  Some semaphores are destroyed while the work
 * that names them is queued, and made again.
 */
#ifndef PROPERTY_EDGE_H
#define PROPERTY_EDGE_H

#include <gpumem.h>

#define BINARIES	4	/* the first ones */
#define SEMAPHORES	(BINARIES + MAX_STREAMS)
#define MOST_RAISED	(BINARIES + 1)

static struct semaphore {
	CUexternalSemaphore made, imported;
	__u64 value;
	int waiter;		/* the stream that waited last; -1: none, or the wait is done */
} semaphores[SEMAPHORES];

/* A word for each stream, in pinned memory. */
static __u64 *words, word_values[MAX_STREAMS];

static CUresult semaphore_make(unsigned int i)
{
	CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC desc = {
		.type = i < BINARIES ? CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD :
				       CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD,
	};
	struct semaphore *s = &semaphores[i];
	CUresult result;

	s->waiter = -1;
	s->value = i < BINARIES ? 0 : rnd(1000);
	result = gpumem_create_semaphore(&s->made, s->value, i < BINARIES ? 0 : GPUMEM_SEMAPHORE_TIMELINE);
	if (!result)
		result = gpumem_export_semaphore(&desc.handle.fd, s->made, 0);
	return result ? result : cuImportExternalSemaphore(&s->imported, &desc);
}

static CUresult semaphore_unmake(unsigned int i)
{
	CUresult result = cuDestroyExternalSemaphore(semaphores[i].made);

	return result ? result : cuDestroyExternalSemaphore(semaphores[i].imported);
}

static CUresult edges_make(void)
{
	CUresult result = cuMemHostAlloc((void **)&words, MAX_STREAMS * sizeof(*words), 0);

	for (unsigned int i = 0; !result && i < SEMAPHORES; i++)
		result = semaphore_make(i);
	if (!result)
		memset(words, 0, MAX_STREAMS * sizeof(*words));
	return result;
}

/* Let stream @from signal semaphore @i next: a wait for its last signal must come before. */
static CUresult semaphore_ready(unsigned int i, int from)
{
	struct semaphore *s = &semaphores[i];
	CUresult result = CUDA_SUCCESS;

	if (i < BINARIES && s->waiter >= 0 && !ordered(s->waiter, from))
		result = cuStreamSynchronize(streams[s->waiter].handle);
	s->waiter = -1;
	return result;
}

static CUresult semaphore_edge(int from, int to)
{
	unsigned int count = 1 + rnd(3), first = rnd(BINARIES), timeline = rnd(2 * count), i = 0, k;
	CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signals[MOST_RAISED] = { 0 };
	CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS waits[MOST_RAISED] = { 0 };
	CUexternalSemaphore raised[MOST_RAISED], awaited[MOST_RAISED];
	CUresult result = CUDA_SUCCESS;

	for (k = 0; !result && k < count; k++) {
		struct semaphore *s;

		/* The timeline comes at a random place in the list, or not at all. */
		i = k == timeline ? BINARIES + (unsigned int)streams[from].same : (first + k) % BINARIES;
		s = &semaphores[i];
		result = semaphore_ready(i, from);
		if (i >= BINARIES)
			s->value += 1 + rnd(5);
		raised[k] = chance(50) ? s->made : s->imported;
		awaited[k] = raised[k] == s->made ? s->imported : s->made;
		signals[k].params.fence.value = waits[k].params.fence.value = s->value;
		s->waiter = to;
	}
	if (!result)
		result = cuSignalExternalSemaphoresAsync(raised, signals, count, streams[from].handle);
	if (!result)
		result = cuWaitExternalSemaphoresAsync(awaited, waits, count, streams[to].handle);
	if (result || !chance(10))
		return result;
	/* The last one of the list. */
	result = semaphore_unmake(i);
	return result ? result : semaphore_make(i);
}

static CUresult word_edge(int from, int to)
{
	CUdeviceptr word = (uintptr_t)&words[from];
	__u64 value = word_values[from] += 1 + rnd(3);
	CUresult result = cuStreamWriteValue64(streams[from].handle, word, value, 0);

	return result ? result : cuStreamWaitValue64(streams[to].handle, word, value, CU_STREAM_WAIT_VALUE_GEQ);
}

static CUresult event_edge(int from, int to)
{
	CUresult result = chance(50) ? cuEventRecord(event, streams[from].handle) :
		cuEventRecordWithFlags(event, streams[from].handle, 0);

	return result ? result : cuStreamWaitEvent(streams[to].handle, event, 0);
}

#endif
