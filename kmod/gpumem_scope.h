/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Scopes: the users and processes that may open a token.  Offered by
 * gpumem_scope.c; includes no other header of gpumem.
 */
#ifndef GPUMEM_SCOPE_H
#define GPUMEM_SCOPE_H

#include <linux/types.h>

struct cred;
struct gpumem_client;
struct pid_namespace;

/**
 * enum gpumem_scope_kind - who may open a token, the narrowest first
 * @GPUMEM_SCOPE_PID_NS: as @GPUMEM_SCOPE_USER, and only from the maker's pid
 *	namespace or one below it
 * @GPUMEM_SCOPE_USER: the maker's user in the maker's user namespace
 * @GPUMEM_SCOPE_ANY: all users that can open the device
 * @GPUMEM_SCOPES: number of kinds
 */
enum gpumem_scope_kind {
	GPUMEM_SCOPE_PID_NS,
	GPUMEM_SCOPE_USER,
	GPUMEM_SCOPE_ANY,
	GPUMEM_SCOPES,
};

/**
 * struct gpumem_scope - who may open one token; constant
 */
struct gpumem_scope {
	/** @kind: as the maker of the token chose */
	enum gpumem_scope_kind kind;
	/** @cred: of the maker, referenced; NULL if there is no token */
	const struct cred *cred;
	/** @pid_ns: of the maker, referenced */
	struct pid_namespace *pid_ns;
};

int gpumem_scope_from_flags(u32 flags);
int gpumem_scope_init(struct gpumem_scope *scope, struct gpumem_client *client,
		      enum gpumem_scope_kind kind);
void gpumem_scope_release(struct gpumem_scope *scope);
int gpumem_scope_check(const struct gpumem_scope *scope,
		       struct gpumem_client *client);

#endif /* GPUMEM_SCOPE_H */
