/* SPDX-License-Identifier: MIT */
/*
 * Devices as CUDA sees them: attributes, names, UUIDs, bus ids.
 */
#ifndef GPUMEM_CORE_DEVICE_H
#define GPUMEM_CORE_DEVICE_H

#include "core/client.h"

CUresult device_attribute(int *value, int attribute, CUdevice device);
CUresult device_name(char *name, int size, CUdevice device);
CUresult device_uuid(CUuuid *uuid, CUdevice device);
CUresult device_bus_id(char *text, int size, CUdevice device);
CUresult device_by_bus_id(CUdevice *device, const char *text);

static inline bool device_valid(CUdevice device)
{
	return device >= 0 && (unsigned int)device < client.devices;
}

/* The ordinal of the visible device that has an index in the client, or CU_DEVICE_INVALID. */
CUdevice device_of_index(unsigned int index);

/* SUCCESS if the system has a NUMA node, INVALID_VALUE if not, OUT_OF_MEMORY if the kernel cannot tell. */
CUresult node_known(int node);

#endif /* GPUMEM_CORE_DEVICE_H */
