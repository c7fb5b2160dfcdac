/* SPDX-License-Identifier: MIT */
/*
 * core: the foundation of all other layers.
 *
 * The client of the kernel, its devices, locks, threads of the library, error reports, and how public
 * functions begin and end. This layer may include CUDA's public headers and the kernel's interface.
 *
 * Words
 *
 *   client      the process's one open file of a device node; other devices are attached to it
 *   device      a visible device: a CUDA ordinal (programs) and an index (the kernel)
 *
 * Device addresses are process addresses. All sizes are bytes.
 *
 * Lock order, outer to inner
 *
 *   init_lock
 *   the lists of contexts
 *   a context's lock
 *   the lock of external memories
 *   a stream's lock
 *   the lock of semaphores
 *   an event's lock
 *   array_lock
 *   vmm_lock
 *   a pool's lock, then the locks of its heaps
 *   the locks of schedules: of a step, then of gates
 *   the locks of staging memory, queues, stream structures, work, event slots and claims
 *   mem_lock
 *   change_lock
 *   a context's lock of active queues
 *   the lock of the rules of faults
 *
 * Queries of streams (except the legacy stream) and of events take none of these locks. A lookup of an address
 * takes none unless the memory at the address changes at that moment.
 *
 * Structures whose handles programs hold (contexts, streams, events, arrays), allocs, blocks and queues of streams
 * are never returned to malloc(). They are reused for the same type only. A stale handle or a
 * concurrent lookup therefore reads a structure of the right type, and notices by its magic number,
 * generation or sequence count that the structure changed.
 *
 * Handles of memory, external memories and external semaphores are values of tables (core/table.h).
 *
 * A declaration under "from a layer above" names a function that this layer calls and a higher layer
 * defines. selftests/host/layers_check.sh lists them, each with the reason.
 */
#ifndef GPUMEM_CORE_CORE_H
#define GPUMEM_CORE_CORE_H

#include "core/call.h"
#include "core/client.h"
#include "core/debug.h"
#include "core/device.h"
#include "core/error.h"
#include "core/fault.h"
#include "core/lock.h"
#include "core/pairs.h"
#include "core/scope.h"
#include "core/seq.h"
#include "core/sorted.h"
#include "core/table.h"
#include "core/tap.h"
#include "core/thread.h"

#endif /* GPUMEM_CORE_CORE_H */
