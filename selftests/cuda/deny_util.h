/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers for the tests that make a system call fail: each installs a seccomp filter, which stays
 * in force for all threads of the process and for its later children.
 */
#ifndef GPUMEM_SELFTESTS_DENY_UTIL_H
#define GPUMEM_SELFTESTS_DENY_UTIL_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/util.h"

static inline bool deny_install(struct sock_filter *filter, unsigned short length)
{
	struct sock_fprog program = { .len = length, .filter = filter };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
}

/* System call @nr fails with @error. */
static inline bool deny_call(unsigned int nr, unsigned int error)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	return deny_install(filter, ARRAY_SIZE(filter));
}

/* System call @nr fails with @error if the low half of its argument number @arg is @value. */
static inline bool deny_call_with(unsigned int nr, unsigned int arg, unsigned int value,
				  unsigned int error)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, args) + arg * sizeof(__u64)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	return deny_install(filter, ARRAY_SIZE(filter));
}

#endif
