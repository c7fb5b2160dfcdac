// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_scope: scopes of the tokens of memory, events and pools.
 *
 * The maker of a token chooses its *scope* (enum gpumem_scope_kind).  A scope
 * holds the maker's credentials and pid namespace as they were then, and does
 * not change.  The parameter ipc_scope is the widest scope that the
 * administrator allows.  A token with a wider scope is not made.  An existing
 * token with a wider scope opens for callers that both its own scope and
 * ipc_scope admit.
 *
 * Descriptors carry their own authority and have no scope.
 *
 * No locks: the parameter is one word.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cred.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/pid_namespace.h>
#include <linux/string.h>
#include <linux/user_namespace.h>

#include "gpumem_client.h"
#include "gpumem_device.h"
#include "gpumem_scope.h"

static const char * const gpumem_scope_names[GPUMEM_SCOPES] = {
	[GPUMEM_SCOPE_PID_NS] = "pidns",
	[GPUMEM_SCOPE_USER] = "user",
	[GPUMEM_SCOPE_ANY] = "any",
};

/* enum gpumem_scope_kind; written at any time by the administrator. */
static int gpumem_scope_widest = GPUMEM_SCOPE_ANY;

static int gpumem_scope_param_set(const char *val,
				  const struct kernel_param *kp)
{
	int kind = sysfs_match_string(gpumem_scope_names, val);

	if (kind < 0) {
		pr_err("ipc_scope: must be \"user\", \"pidns\" or \"any\"\n");
		return kind;
	}
	WRITE_ONCE(gpumem_scope_widest, kind);
	return 0;
}

static int gpumem_scope_param_get(char *buffer, const struct kernel_param *kp)
{
	return sysfs_emit(buffer, "%s\n",
			  gpumem_scope_names[READ_ONCE(gpumem_scope_widest)]);
}

static const struct kernel_param_ops gpumem_scope_param_ops = {
	.set = gpumem_scope_param_set,
	.get = gpumem_scope_param_get,
};

module_param_cb(ipc_scope, &gpumem_scope_param_ops, NULL, 0644);
MODULE_PARM_DESC(ipc_scope,
		 "Widest scope of tokens: pidns, user or any (default any)");

/**
 * gpumem_scope_from_flags - scope that the maker of a token asks for
 * @flags: enum gpumem_token_flags
 *
 * Return: enum gpumem_scope_kind, -EOPNOTSUPP for an unknown flag, -EINVAL if
 * the flags contradict each other.
 */
int gpumem_scope_from_flags(u32 flags)
{
	switch (flags) {
	case 0:
		return GPUMEM_SCOPE_USER;
	case GPUMEM_TOKEN_ANY_USER:
		return GPUMEM_SCOPE_ANY;
	case GPUMEM_TOKEN_PID_NS:
		return GPUMEM_SCOPE_PID_NS;
	case GPUMEM_TOKEN_ANY_USER | GPUMEM_TOKEN_PID_NS:
		return -EINVAL;
	default:
		return -EOPNOTSUPP;
	}
}

/* Log that the parameter refused, and not the token's own scope. */
static void gpumem_scope_refused(struct gpumem_client *client, const char *what,
				 enum gpumem_scope_kind kind,
				 enum gpumem_scope_kind widest)
{
	dev_warn_ratelimited(&client->devices[0]->dev,
			     "%s[%d] may not %s a token of scope \"%s\": the module's parameter ipc_scope is \"%s\"\n",
			     current->comm, task_tgid_nr(current), what,
			     gpumem_scope_names[kind],
			     gpumem_scope_names[widest]);
}

/**
 * gpumem_scope_init - make the calling task the maker of a token
 * @scope: scope, out; the caller passes it to gpumem_scope_release() later
 * @client: client that makes the token
 * @kind: scope that the client asked for
 *
 * Return: 0, or -EPERM if the administrator allows only narrower scopes.
 */
int gpumem_scope_init(struct gpumem_scope *scope, struct gpumem_client *client,
		      enum gpumem_scope_kind kind)
{
	int widest = READ_ONCE(gpumem_scope_widest);

	if (kind > widest) {
		gpumem_scope_refused(client, "make", kind, widest);
		return -EPERM;
	}
	scope->kind = kind;
	scope->cred = get_current_cred();
	scope->pid_ns = get_pid_ns(task_active_pid_ns(current));
	return 0;
}

/**
 * gpumem_scope_release - drop what a scope refers to
 * @scope: scope, also one in zeroed memory without a token
 */
void gpumem_scope_release(struct gpumem_scope *scope)
{
	if (!scope->cred)
		return;
	put_cred(scope->cred);
	put_pid_ns(scope->pid_ns);
	scope->cred = NULL;
}

/* Is the calling task in @ns or in a pid namespace below it? */
static bool gpumem_scope_in_pid_ns(const struct pid_namespace *ns)
{
	const struct pid_namespace *own = task_active_pid_ns(current);

	while (own->level > ns->level)
		own = own->parent;
	return own == ns;
}

static bool gpumem_scope_admits(const struct gpumem_scope *scope,
				enum gpumem_scope_kind kind)
{
	if (kind == GPUMEM_SCOPE_ANY)
		return true;
	if (!uid_eq(scope->cred->euid, current_euid()) ||
	    scope->cred->user_ns != current_user_ns())
		return false;
	return kind == GPUMEM_SCOPE_USER ||
	       gpumem_scope_in_pid_ns(scope->pid_ns);
}

/**
 * gpumem_scope_check - may the calling task open a token?
 * @scope: of the token
 * @client: of the calling task
 *
 * Context: may sleep.
 * Return: 0, -EACCES if the token's scope refuses, or -EPERM if only ipc_scope
 * does.
 */
int gpumem_scope_check(const struct gpumem_scope *scope,
		       struct gpumem_client *client)
{
	int widest = READ_ONCE(gpumem_scope_widest);

	if (!gpumem_scope_admits(scope, scope->kind))
		return -EACCES;
	if (scope->kind <= widest || gpumem_scope_admits(scope, widest))
		return 0;
	gpumem_scope_refused(client, "open", scope->kind, widest);
	return -EPERM;
}
