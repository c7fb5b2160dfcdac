/* SPDX-License-Identifier: GPL-2.0 */
/* What differs between the kernels for which nic.c is built. */
#ifndef NIC_COMPAT_H
#define NIC_COMPAT_H

#include <linux/version.h>

/*
 * NIC_QUEUE_OPS() defines @name, the operations on a receive queue whose memory is a @type.  Newer
 * kernels tell how the queue is configured; the pair has nothing to configure.
 */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 0, 0)
#include <net/netdev_lock.h>
#define NIC_QUEUE_OPS(name, type, alloc, free, start, stop)					\
static int name##_alloc(struct net_device *dev, struct netdev_queue_config *qcfg, void *mem,	\
			int idx)								\
{												\
	return alloc(dev, mem, idx);								\
}												\
												\
static int name##_start(struct net_device *dev, struct netdev_queue_config *qcfg, void *mem,	\
			int idx)								\
{												\
	return start(dev, mem);									\
}												\
												\
static const struct netdev_queue_mgmt_ops name = {						\
	.ndo_queue_mem_size = sizeof(type),							\
	.ndo_queue_mem_alloc = name##_alloc,							\
	.ndo_queue_mem_free = free,								\
	.ndo_queue_start = name##_start,							\
	.ndo_queue_stop = stop,									\
}

#define NIC_RING_PARAMS	(ETHTOOL_RING_USE_TCP_DATA_SPLIT | ETHTOOL_RING_USE_HDS_THRS)

/* Let sockets send device memory through @dev. */
static inline void nic_allow_tx(struct net_device *dev)
{
	dev->netmem_tx = NETMEM_TX_DMA;
}
#else
#define NIC_QUEUE_OPS(name, type, alloc, free, start, stop)					\
static int name##_alloc(struct net_device *dev, void *mem, int idx)				\
{												\
	return alloc(dev, mem, idx);								\
}												\
												\
static int name##_start(struct net_device *dev, void *mem, int idx)				\
{												\
	return start(dev, mem);									\
}												\
												\
static const struct netdev_queue_mgmt_ops name = {						\
	.ndo_queue_mem_size = sizeof(type),							\
	.ndo_queue_mem_alloc = name##_alloc,							\
	.ndo_queue_mem_free = free,								\
	.ndo_queue_start = name##_start,							\
	.ndo_queue_stop = stop,									\
}

#define NIC_RING_PARAMS	ETHTOOL_RING_USE_TCP_DATA_SPLIT

static inline void nic_allow_tx(struct net_device *dev)
{
}
#endif

/* Where the CPU finds a fragment that is sent; device memory is known by its DMA address only. */
static inline void *nic_tx_address(skb_frag_t *frag)
{
	netmem_ref netmem = skb_frag_netmem(frag);

	if (!netmem_is_net_iov(netmem))
		return skb_frag_address(frag);
	return phys_to_virt(netmem_get_dma_addr(netmem)) + skb_frag_off(frag);
}

#endif
