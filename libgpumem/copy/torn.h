/* SPDX-License-Identifier: MIT */
/*
 * Faults of copies: copies that are torn into pieces, and copies that change a bit. torn.c carries them out.
 */
#ifndef GPUMEM_COPY_TORN_H
#define GPUMEM_COPY_TORN_H

#include "copy/box.h"

/* copy_put(), as pieces in reverse order with a pause between two of them. stream->lock is held. */
CUresult torn_put(CUstream stream, struct queue *queue, const struct copy *copy);
/* copy_run(), then change one bit of the destination, in stream order. */
CUresult torn_flip(CUstream stream, const struct copy *copy, unsigned int flags);

#endif /* GPUMEM_COPY_TORN_H */
