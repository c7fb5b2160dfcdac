/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Read before each source by sparse 0.6.4, which does not know what the headers of newer kernels
 * are written in.  The compiler sees none of this and checks the assertions.
 */
#define __typeof_unqual__ __typeof__
#define _Static_assert(...) struct gpumem_sparse_assertion
