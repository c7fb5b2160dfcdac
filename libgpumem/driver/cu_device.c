// SPDX-License-Identifier: MIT
/*
 * The API's chapters "Initialization", "Version Management" and "Device Management".
 *
 * Thin: core/client.c and core/device.c implement it.
 */
#include "driver/driver.h"
#include "abi/release.h"

/**
 * cuInit - find the devices and get ready to use them
 * @flags: must be 0
 *
 * Deviation: a device is a /dev/gpumemN that the process may open. If there is no device,
 * gpumem_init_error() says in one line why.
 *
 * Return: NO_DEVICE without a device, INVALID_DEVICE if CUDA_VISIBLE_DEVICES names a device twice,
 * NOT_INITIALIZED in a forked child of a process that had called cuInit(), INVALID_VALUE for @flags.
 */
CUresult cuInit(unsigned int flags)
{
	CUresult result;

	if (flags)
		RETURN(CUDA_ERROR_INVALID_VALUE);
	result = client_init(strict_start, &watch_client, &schedule_hooks);
	/* client_init() has printed the reason if it knows one. */
	if (result && !gpumem_init_error())
		debug_failure(__func__, result);
	/* The first call began before there was a tap. */
	if (!result && unlikely(client.tap))
		client.tap->end(__func__, result);
	return result;
}

/**
 * cuDriverGetVersion - the version of the driver API
 * @version: 1000 * major + 10 * minor
 *
 * Works before cuInit(). Return: INVALID_VALUE for NULL.
 */
CUresult cuDriverGetVersion(int *version)
{
	if (!version)
		RETURN(CUDA_ERROR_INVALID_VALUE);
	*version = release_cuda;
	return CUDA_SUCCESS;
}

static CUresult device_get(CUdevice *device, int ordinal)
{
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_valid(ordinal))
		return CUDA_ERROR_INVALID_DEVICE;
	*device = ordinal;
	return CUDA_SUCCESS;
}

/**
 * cuDeviceGet - the handle of a device
 * @device: the handle
 * @ordinal: from 0
 *
 * Return: INVALID_DEVICE if @ordinal is not less than the number of devices, INVALID_VALUE for NULL.
 */
CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	CALL(device_get(device, ordinal), device, ordinal);
}

static CUresult device_count(int *count)
{
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = client.devices;
	return CUDA_SUCCESS;
}

/** cuDeviceGetCount - the number of visible devices */
CUresult cuDeviceGetCount(int *count)
{
	CALL(device_count(count), count);
}

/**
 * cuDeviceGetName - the name of a device
 * @name: receives the name, cut to @size bytes including the final NUL
 *
 * Return: INVALID_DEVICE, INVALID_VALUE.
 */
CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
	CALL(device_name(name, size, device), name, size, device);
}

/**
 * cuDeviceGetUuid_v2 - the identity of a device
 * @uuid: 16 bytes, the same after the module was loaded again
 *
 * Return: INVALID_DEVICE, INVALID_VALUE.
 */
CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
	CALL(device_uuid(uuid, device), uuid, device);
}

/** cuDeviceGetUuid - the same */
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
	CALL(device_uuid(uuid, device), uuid, device);
}

static CUresult total_memory(size_t *bytes, CUdevice device)
{
	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	*bytes = fault_total(device);
	return CUDA_SUCCESS;
}

/**
 * cuDeviceTotalMem_v2 - a device's memory in bytes
 *
 * Return: INVALID_DEVICE, INVALID_VALUE.
 */
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	CLEAR(bytes);
	CALL(total_memory(bytes, device), bytes, device);
}

static CUresult total_memory_32(unsigned int *bytes, CUdevice device)
{
	size_t total = 0;
	CUresult result = total_memory(bytes ? &total : NULL, device);

	if (!result)
		*bytes = min_u64(total, UINT32_MAX);
	return result;
}

/** cuDeviceTotalMem - a device's memory in bytes, at most 4 GiB - 1 */
CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice device)
{
	CLEAR(bytes);
	CALL(total_memory_32(bytes, device), bytes, device);
}

/**
 * cuDeviceGetAttribute - one number about a device
 *
 * Deviation: limits are those of an H200, capabilities are those of this library (core/device.c).
 *
 * Return: INVALID_VALUE for an unknown attribute, INVALID_DEVICE.
 */
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	CALL_AFTER(NEEDS(value), device_attribute(value, attribute, device), value, attribute,
		   device);
}

static CUresult capability(int *major, int *minor, CUdevice device)
{
	CUresult result = device_attribute(major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
					   device);

	return result ? result :
		device_attribute(minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
}

/**
 * cuDeviceComputeCapability - the attributes COMPUTE_CAPABILITY_MAJOR and MINOR of a device
 *
 * Return: INVALID_DEVICE, INVALID_VALUE.
 */
CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
	CALL(capability(major, minor, device), major, minor, device);
}

/**
 * cuDeviceGetPCIBusId - a device's bus id, "dddd:bb:dd.f"
 * @bus_id: receives the text
 * @size: bytes that @bus_id has room for, 13 or more
 *
 * Deviation: the domain is one that no real bus has (core/device.c).
 *
 * Return: INVALID_DEVICE; INVALID_VALUE for NULL or a smaller buffer, which receives the part that fits.
 */
CUresult cuDeviceGetPCIBusId(char *bus_id, int size, CUdevice device)
{
	CALL(device_bus_id(bus_id, size, device), bus_id, size, device);
}

/**
 * cuDeviceGetByPCIBusId - a device by its bus id
 * @bus_id: "[domain:]bus:device[.function]", either case
 *
 * Return: INVALID_VALUE if @bus_id is malformed, INVALID_DEVICE if no visible device has this bus id.
 */
CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *bus_id)
{
	CALL(device_by_bus_id(device, bus_id), device, bus_id);
}
