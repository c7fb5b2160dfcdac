/* SPDX-License-Identifier: MIT */
/*
 * The types of the runtime API under the name by which programs include them.
 */
#ifndef __DRIVER_TYPES_H__
#define __DRIVER_TYPES_H__

#include "host_defines.h"
#include "vector_types.h"
#include "cuda_rt_types.h"
#include "cuda_rt_arrays.h"
#include "cuda_rt_external.h"

#endif /* __DRIVER_TYPES_H__ */
