// SPDX-License-Identifier: MIT
/*
 * The management library: how devices are connected.
 *
 * Every device has access to the memory of every other device, as cuDeviceCanAccessPeer() says. Each
 * device reports a link to each of the first NVML_NVLINK_MAX_LINKS other devices, so that libraries
 * choose direct access: link N of a device leads to the N-th of the other devices, in order of their
 * indexes. The topology functions report one switch between any two devices. Links support no atomic
 * operations, and there is no fabric between machines.
 *
 * Owns nothing.
 */
#include <string.h>

#include "nvml_private.h"

/* The version of an H200's links, because CUDA reports an H200's limits. */
#define LINK_VERSION	4

static unsigned int links(void)
{
	unsigned int others = nvml_count - 1;

	return others < NVML_NVLINK_MAX_LINKS ? others : NVML_NVLINK_MAX_LINKS;
}

/* NOT_SUPPORTED for a link that does not lead to a device. */
static nvmlReturn_t check_link(nvmlDevice_t device, unsigned int link, const void *out)
{
	nvmlReturn_t result = nvml_check(device, out);

	if (result)
		return result;
	if (link >= NVML_NVLINK_MAX_LINKS)
		return NVML_ERROR_INVALID_ARGUMENT;
	return link < links() ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

static nvmlDevice_t remote(nvmlDevice_t device, unsigned int link)
{
	unsigned int index = device - nvml_devices;

	return &nvml_devices[link < index ? link : link + 1];
}

/** nvmlDeviceGetNvLinkState - enabled for each link that leads to a device */
EXPORT nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link,
					     nvmlEnableState_t *active)
{
	nvmlReturn_t result = check_link(device, link, active);

	if (!result)
		*active = NVML_FEATURE_ENABLED;
	return result;
}

/** nvmlDeviceGetNvLinkVersion - LINK_VERSION for each link that leads to a device */
EXPORT nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned int link,
					       unsigned int *version)
{
	nvmlReturn_t result = check_link(device, link, version);

	if (!result)
		*version = LINK_VERSION;
	return result;
}

/** nvmlDeviceGetNvLinkCapability - 1 for peer access and for validity, 0 for every other capability */
EXPORT nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned int link,
						  nvmlNvLinkCapability_t capability,
						  unsigned int *value)
{
	nvmlReturn_t result = check_link(device, link, value);

	if (!result && (unsigned int)capability >= NVML_NVLINK_CAP_COUNT)
		result = NVML_ERROR_INVALID_ARGUMENT;
	if (!result)
		*value = capability == NVML_NVLINK_CAP_P2P_SUPPORTED ||
			 capability == NVML_NVLINK_CAP_VALID;
	return result;
}

/** nvmlDeviceGetNvLinkRemoteDeviceType - a GPU is at the other end of every link */
EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned int link,
							nvmlIntNvLinkDeviceType_t *type)
{
	nvmlReturn_t result = check_link(device, link, type);

	if (!result)
		*type = NVML_NVLINK_DEVICE_TYPE_GPU;
	return result;
}

/** nvmlDeviceGetNvLinkRemotePciInfo_v2 - which device is at the other end of a link */
EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link,
							nvmlPciInfo_t *pci)
{
	nvmlReturn_t result = check_link(device, link, pci);

	return result ? result : nvmlDeviceGetPciInfo_v3(remote(device, link), pci);
}

/** nvmlDeviceGetNvLinkRemotePciInfo - the same without busId */
EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device, unsigned int link,
						     nvmlPciInfo_t *pci)
{
	nvmlReturn_t result = check_link(device, link, pci);

	return result ? result : nvmlDeviceGetPciInfo(remote(device, link), pci);
}

/** nvmlDeviceGetP2PStatus - OK between two devices for everything but atomic operations */
EXPORT nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device, nvmlDevice_t peer,
					   nvmlGpuP2PCapsIndex_t index, nvmlGpuP2PStatus_t *status)
{
	nvmlReturn_t result = nvml_check(device, status);

	result = result ? result : nvml_check(peer, status);
	if (!result && (device == peer || (unsigned int)index >= NVML_P2P_CAPS_INDEX_UNKNOWN))
		result = NVML_ERROR_INVALID_ARGUMENT;
	if (!result)
		*status = index == NVML_P2P_CAPS_INDEX_ATOMICS ? NVML_P2P_STATUS_NOT_SUPPORTED :
			  NVML_P2P_STATUS_OK;
	return result;
}

/** nvmlDeviceGetTopologyCommonAncestor - one switch between any two devices */
EXPORT nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device, nvmlDevice_t other,
							nvmlGpuTopologyLevel_t *level)
{
	nvmlReturn_t result = nvml_check(device, level);

	result = result ? result : nvml_check(other, level);
	if (!result)
		*level = device == other ? NVML_TOPOLOGY_INTERNAL : NVML_TOPOLOGY_SINGLE;
	return result;
}

/**
 * nvmlDeviceGetTopologyNearestGpus - the devices at one level of distance
 * @count: room in @others; the number of devices on return
 * @others: NULL if @count is 0, which asks for the number
 *
 * Return: also INVALID_ARGUMENT for an unknown level, INSUFFICIENT_SIZE.
 */
EXPORT nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device,
						     nvmlGpuTopologyLevel_t level,
						     unsigned int *count, nvmlDevice_t *others)
{
	nvmlReturn_t result = nvml_check(device, count);
	unsigned int i, room, number;

	if (!result && ((unsigned int)level > NVML_TOPOLOGY_SYSTEM || level % 10 ||
			(*count && !others)))
		result = NVML_ERROR_INVALID_ARGUMENT;
	if (result)
		return result;
	number = level == NVML_TOPOLOGY_SINGLE ? nvml_count - 1 : 0;
	room = *count;
	*count = number;
	if (!room)
		return NVML_SUCCESS;
	if (room < number)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (i = 0; i < number; i++)
		others[i] = remote(device, i);
	return NVML_SUCCESS;
}

/** nvmlDeviceOnSameBoard - 1 for a device and itself, 0 for two devices */
EXPORT nvmlReturn_t nvmlDeviceOnSameBoard(nvmlDevice_t device, nvmlDevice_t other, int *same)
{
	nvmlReturn_t result = nvml_check(device, same);

	result = result ? result : nvml_check(other, same);
	if (!result)
		*same = device == other;
	return result;
}

/** nvmlDeviceGetGpuFabricInfo - a device is part of no fabric */
EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *info)
{
	nvmlReturn_t result = nvml_check(device, info);

	if (!result)
		*info = (nvmlGpuFabricInfo_t) { .state = NVML_GPU_FABRIC_STATE_NOT_SUPPORTED };
	return result;
}

/**
 * nvmlDeviceGetGpuFabricInfoV - the same in a structure that also has the fabric's health
 * @info: version is nvmlGpuFabricInfo_v2 or nvmlGpuFabricInfo_v3
 *
 * Return: ARGUMENT_VERSION_MISMATCH for any other version.
 */
EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfoV_t *info)
{
	nvmlReturn_t result = nvml_check(device, info);
	unsigned int version;

	if (result)
		return result;
	version = info->version;
	if (version != nvmlGpuFabricInfo_v2 && version != nvmlGpuFabricInfo_v3)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	/* The version contains the structure's size. Every member but the version is 0. */
	memset(info, 0, version & 0xffffff);
	info->version = version;
	return NVML_SUCCESS;
}

static void field(nvmlFieldValue_t *value, unsigned int number)
{
	value->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
	value->value.ullVal = 0;
	value->value.uiVal = number;
	value->nvmlReturn = NVML_SUCCESS;
}

/**
 * nvmlDeviceGetFieldValues - several values in one call
 * @number: the number of @values; at least 1
 * @values: fieldId and scopeId name a field; nvmlReturn of each receives whether the library has the field
 *
 * The library has the number of links (of C2C links: 0) and the state of a link.
 */
EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int number,
					     nvmlFieldValue_t *values)
{
	nvmlReturn_t result = nvml_check(device, values);
	int i;

	if (!result && number < 1)
		result = NVML_ERROR_INVALID_ARGUMENT;
	for (i = 0; !result && i < number; i++) {
		nvmlFieldValue_t *value = &values[i];

		value->timestamp = 0;
		value->latencyUsec = 0;
		switch (value->fieldId) {
		case NVML_FI_DEV_NVLINK_LINK_COUNT:
			field(value, links());
			break;
		case NVML_FI_DEV_NVLINK_GET_STATE:
			field(value, value->scopeId < links());
			break;
		case NVML_FI_DEV_C2C_LINK_COUNT:
			field(value, 0);
			break;
		default:
			value->nvmlReturn = value->fieldId < NVML_FI_MAX ?
				NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
		}
	}
	return result;
}
