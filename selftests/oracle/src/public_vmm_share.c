// SPDX-License-Identifier: GPL-2.0
/*
 * Cases of handles and other processes.
 *
 * - Is a handle valid after it was passed to another process, and what does the other process get?
 * - What do fabric handles answer?
 */
#include "vmm.h"

/* ------------------------------------------------------ handles between processes */
PEER(vmm_passed)
{
	CUmemGenericAllocationHandle h[2] = { 0 };
	CUmemAllocationProp p;
	CUmemAccessDesc a = rw();
	CUipcMemHandle ipc;
	CUdeviceptr d;
	int fd = xrecv_fd(sock), fd2 = -1;

	init_ctx();
	T("peer_import",
	  cuMemImportFromShareableHandle(&h[0], HPTR(fd), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	T("peer_import_again",
	  cuMemImportFromShareableHandle(&h[1], HPTR(fd), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	emit("peer_distinct", "%d", h[0] != h[1]);
	memset(&p, 0xee, sizeof(p));
	TF("peer_props", cuMemGetAllocationPropertiesFromHandle(&p, h[0]),
	   "type=%d handles=%d loc=%d,%d rdma=%d usage=%d", (int)p.type, (int)p.requestedHandleTypes,
	   (int)p.location.type, p.location.id, p.allocFlags.gpuDirectRDMACapable, p.allocFlags.usage);
	T("peer_export", cuMemExportToShareableHandle(&fd2, h[0], CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	d = reserve(2 * G);
	T("peer_map_whole", cuMemMap(d, 2 * G, 0, h[0], 0));
	T("peer_access", cuMemSetAccess(d, 2 * G, &a, 1));
	emit("peer_content", "%s", dsame(d, 2 * G, 4));
	T("peer_release", cuMemRelease(h[0]));
	T("peer_release_again", cuMemRelease(h[1]));
	close(fd);
	SYNC_TO(sock);
	SYNC_FROM(sock);		/* the exporter has released and unmapped it */
	emit("peer_content_after", "%s", dsame(d, 2 * G, 4));
	T("peer_dmabuf", cuMemGetHandleForAddressRange(&fd2, d, 2 * G, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	T("peer_ipc", cuIpcGetMemHandle(&ipc, d));
	T("peer_retain", cuMemRetainAllocationHandle(&h[0], HPTR(d)));
}

GROUP(vmm_passed)
{
	CUmemAllocationProp p;
	CUmemGenericAllocationHandle h = 0;
	CUmemAccessDesc a = rw();
	CUdeviceptr d;
	peer_t peer;
	int fd = -1;

	init_ctx();
	p = prop_at(CU_MEM_LOCATION_TYPE_DEVICE, g_dev, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	REQ(cuMemCreate(&h, 2 * G, &p, 0));
	d = reserve(2 * G);
	REQ(cuMemMap(d, 2 * G, 0, h, 0));
	REQ(cuMemSetAccess(d, 2 * G, &a, 1));
	dfill(d, 2 * G, 4);
	REQ(cuCtxSynchronize());
	REQ(cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	REQNZ(peer_start(&peer, "vmm_passed") == 0);
	xsend_fd(peer.fd, fd);
	close(fd);
	SYNC_FROM(peer.fd);
	T("unmap", cuMemUnmap(d, 2 * G));
	T("release", cuMemRelease(h));
	SYNC_TO(peer.fd);
	emit("peer_exit", "%d", peer_wait(&peer));
}

GROUP(vmm_fabric)
{
	CUmemAllocationProp p;
	CUmemGenericAllocationHandle h = 0;
	unsigned char handle[64] = { 0 };
	CUresult r;

	init_ctx();
	p = prop_at(CU_MEM_LOCATION_TYPE_DEVICE, g_dev, CU_MEM_HANDLE_TYPE_FABRIC);
	emit("attribute", "%d", dev_attr(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED));
	r = cuMemCreate(&h, G, &p, 0);
	emit("create", "%s", rcs(r));
	if (!r)
		T("export", cuMemExportToShareableHandle(handle, h, CU_MEM_HANDLE_TYPE_FABRIC, 0));
	T("import_zeroes", cuMemImportFromShareableHandle(&h, handle, CU_MEM_HANDLE_TYPE_FABRIC));
	p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC | CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	T("create_both", cuMemCreate(&h, G, &p, 0));
}
