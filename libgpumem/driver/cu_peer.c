// SPDX-License-Identifier: MIT
/*
 * The API's chapter "Peer Context Memory Access".
 *
 * Thin: exec/peer.c owns the grants.
 */
#include "driver/driver.h"

/**
 * cuCtxEnablePeerAccess - let the current context reach the memory of another device's context
 * @peer: the other device's context
 * @flags: 0
 *
 * Return: PEER_ACCESS_ALREADY_ENABLED; PEER_ACCESS_UNSUPPORTED for a context of the same device, also
 * for the current context (CUDA's documentation says INVALID_CONTEXT for that case); INVALID_CONTEXT without
 * a current context or if @peer is not a context; INVALID_VALUE for other @flags.
 */
CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
	CALL(peer_enable(peer, flags), peer, flags);
}

/** cuCtxDisablePeerAccess - take the access back; PEER_ACCESS_NOT_ENABLED if it was not enabled */
CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
	CALL(peer_disable(peer), peer);
}

static CUresult can_access(int *can, CUdevice device, CUdevice peer)
{
	if (!can)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_valid(device) || !device_valid(peer))
		return CUDA_ERROR_INVALID_DEVICE;
	*can = device != peer;
	return CUDA_SUCCESS;
}

/** cuDeviceCanAccessPeer - 1 for two different devices, 0 for a device and itself */
CUresult cuDeviceCanAccessPeer(int *can_access_peer, CUdevice device, CUdevice peer)
{
	CALL(can_access(can_access_peer, device, peer), can_access_peer, device, peer);
}

static CUresult p2p_attribute(int *value, CUdevice_P2PAttribute attribute, CUdevice source,
			      CUdevice destination)
{
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_valid(source) || !device_valid(destination) || source == destination)
		return CUDA_ERROR_INVALID_DEVICE;
	switch (attribute) {
	case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
	case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
		*value = 1;
		return CUDA_SUCCESS;
	case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
	case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
	case CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED:
		*value = 0;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/**
 * cuDeviceGetP2PAttribute - an attribute of a pair of devices
 *
 * Access to the other device's memory and arrays is supported (1). The performance rank is 0 for every pair.
 * Devices do not execute atomics on each other's memory (0). Return: INVALID_DEVICE, also for a device and
 * itself; INVALID_VALUE.
 */
CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice source,
				 CUdevice destination)
{
	CALL(p2p_attribute(value, attribute, source, destination), value, attribute, source,
	     destination);
}
