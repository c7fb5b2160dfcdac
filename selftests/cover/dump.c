// SPDX-License-Identifier: GPL-2.0
/*
 * Part of each library with COV=1 alone: lets a test program have the libraries' line counts written
 * where it ends without exit handlers.  See selftests/common/util.c.
 *
 * GPUMEM_COV_DUMP is the function's name.  The driver library's is gpumem_cov_dump(), which calls
 * that of libgpumem.so.1, too, if the process has it.
 */
void __gcov_dump(void);
void GPUMEM_COV_DUMP(void);
void gpumem_cov_dump_runtime(void) __attribute__((weak));
void gpumem_cov_dump(void);

__attribute__((visibility("default"))) void GPUMEM_COV_DUMP(void)
{
	__gcov_dump();
	if (GPUMEM_COV_DUMP == gpumem_cov_dump && gpumem_cov_dump_runtime)
		gpumem_cov_dump_runtime();
}
