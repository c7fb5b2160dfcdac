/* SPDX-License-Identifier: MIT */
/*
 * The types of the runtime API, of surfaces and textures, and CUDA's vector types.
 */
#ifndef __BUILTIN_TYPES_H__
#define __BUILTIN_TYPES_H__

#include "device_types.h"
#include "driver_types.h"
#include "surface_types.h"
#include "texture_types.h"
#include "vector_types.h"

#endif /* __BUILTIN_TYPES_H__ */
