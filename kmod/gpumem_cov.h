/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Coverage: what gpumem_cov.c offers in a module built with GPUMEM_COV=1.
 */
#ifndef GPUMEM_COV_H
#define GPUMEM_COV_H

#ifdef GPUMEM_COV
void __sanitizer_cov_trace_pc(void);
void gpumem_cov_report(void);
#else
static inline void gpumem_cov_report(void)
{
}
#endif

#endif /* GPUMEM_COV_H */
