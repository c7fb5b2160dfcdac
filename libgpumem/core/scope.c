// SPDX-License-Identifier: MIT
/*
 * Scope of the handles that this process gives to others: who may open them.
 *
 * GPUMEM_IPC chooses the scope, for handles of memory, events and pools alike: "user" (the default), "pidns"
 * or "any". scope_init() reads it at each cuInit() that is not done yet, but not in programs with raised
 * privileges. The kernel enforces it, and the module's parameter ipc_scope may forbid the wider ones.
 *
 * Locks: none. cuInit() sets the scope, with init_lock held.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"

static const struct {
	const char *name;
	uint32_t token;			/* enum gpumem_token_flags */
	uint32_t pool;			/* enum gpumem_pool_export_flags */
} scopes[] = {
	{ "user", 0, GPUMEM_POOL_EXPORT_SAME_USER },
	{ "pidns", GPUMEM_TOKEN_PID_NS, GPUMEM_POOL_EXPORT_PID_NS },
	{ "any", GPUMEM_TOKEN_ANY_USER, 0 },
};

static unsigned int scope;		/* index in scopes; client_init() */
static bool complained, refused;	/* atomic */

void scope_init(void)
{
	const char *text = secure_getenv("GPUMEM_IPC");
	unsigned int i;

	scope = 0;
	if (!text)
		return;
	for (i = 0; i < sizeof(scopes) / sizeof(*scopes); i++)
		if (!strcmp(text, scopes[i].name)) {
			scope = i;
			return;
		}
	if (!__atomic_exchange_n(&complained, true, __ATOMIC_RELAXED))
		fprintf(stderr, "gpumem: GPUMEM_IPC=%s: must be user, pidns or any; using user\n",
			text);
}

uint32_t scope_token_flags(void)
{
	return scopes[scope].token;
}

uint32_t scope_pool_flags(void)
{
	return scopes[scope].pool;
}

CUresult scope_refused(void)
{
	int cancel = cancel_disable();

	if (!__atomic_exchange_n(&refused, true, __ATOMIC_RELAXED))
		fprintf(stderr, "gpumem: handles with GPUMEM_IPC=%s are refused: the parameter "
			"ipc_scope of the kernel module gpumem allows only narrower ones\n",
			scopes[scope].name);
	cancel_restore(cancel);
	return CUDA_ERROR_NOT_PERMITTED;
}
