/* SPDX-License-Identifier: GPL-2.0 */
/*
 * State and check of race tests in which one client opens objects while another makes and destroys
 * them.
 */
#ifndef GPUMEM_SELFTESTS_OPEN_RACE_H
#define GPUMEM_SELFTESTS_OPEN_RACE_H

#include <errno.h>

#include "common/util.h"

struct open_race {
	int other;			/* the client that opens */
	_Atomic unsigned int opened, wrong;
};

/* Checks an open's result @ret: -ENOENT, or a view of one page, which is destroyed here.  */
static inline void race_opened(struct open_race *o, int ret, __u64 length, __u32 id)
{
	if (ret && ret != -ENOENT)
		o->wrong++;
	if (ret)
		return;
	o->opened++;
	if (length != page_size || gp_destroy(o->other, id))
		o->wrong++;
}

#endif
