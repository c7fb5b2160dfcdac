// SPDX-License-Identifier: MIT
/*
 * Functions of the runtime API that this library does not have: exported, and failing.
 *
 * Programs that were linked with CUDA's library want every name that they use to be there when they
 * start. So the names are, and say what a driver without the feature says: the error of the driver
 * if that does not start, else cudaErrorNotSupported. Arguments are not looked at, outputs not
 * touched, nothing is a success.
 *
 * Rules
 *
 *   - runtime_symbols.txt has these names with status "absent"; mkmap makes cuda_rt_absent.h from
 *     it. A name that gets a definition elsewhere changes its status there.
 *   - No header declares them, and each returns a cudaError_t. The code takes no arguments and
 *     leaves those that it was passed alone, which calling conventions allow where the caller owns
 *     them.
 */
#include "cuda_rt.h"

static __attribute__((noinline)) cudaError_t absent(void)
{
	RT_DRIVER(cudaErrorNotSupported);
}

#define RT_ABSENT(name)							\
	__attribute__((visibility("default"))) cudaError_t name(void);	\
	cudaError_t name(void)						\
	{								\
		return absent();					\
	}
#include "cuda_rt_absent.h"
