/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Definitions that sparse 0.6.4 reads before each source: the headers of newer kernels use
 * constructs that it does not know.  The compiler does not read this file, so it does check the
 * assertions.
 */
#define __typeof_unqual__ __typeof__
#define _Static_assert(...) struct gpumem_sparse_assertion
