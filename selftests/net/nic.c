// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_nic.ko: a pair of network devices that receive into device memory.
 *
 * No device that QEMU emulates has receive queues of a DMA-buf.  What one device of the pair
 * sends, the other one receives: headers go to memory of the socket buffer, TCP's payload goes to
 * memory of the receive queue, which may be a DMA-buf.  As a device does, the pair knows that
 * memory by its DMA address only.  Without an IOMMU that is the physical address.
 *
 * The devices are gpunic0 and gpunic1.  One of them is to be moved to another network namespace.
 */
#include <linux/dma-mapping.h>
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/ip.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/tcp.h>
#include <net/netdev_queues.h>
#include <net/page_pool/helpers.h>

#include "nic_compat.h"

#define NIC_POOL_SIZE	1024

/* Memory of a receive queue; what netdev_queue_mgmt_ops hands from one call to the next. */
struct nic_queue {
	struct page_pool *pool;
};

struct nic {
	struct net_device *dev;
	struct net_device *peer;
	struct platform_device *parent;
	/* Protects @queue against senders; pages of a pool are taken under it, too. */
	spinlock_t lock;
	struct nic_queue queue;
	u8 split;
};

static struct nic *nics[2];

static int nic_mem_alloc(struct net_device *dev, struct nic_queue *q, int idx)
{
	struct page_pool_params p = {
		/* 6.12 takes device memory only with the second flag; later ones ignore it. */
		.flags = PP_FLAG_DMA_MAP | PP_FLAG_DMA_SYNC_DEV |
			 PP_FLAG_ALLOW_UNREADABLE_NETMEM,
		.max_len = PAGE_SIZE,
		.pool_size = NIC_POOL_SIZE,
		.nid = NUMA_NO_NODE,
		.dev = dev->dev.parent,
		.dma_dir = DMA_FROM_DEVICE,
		.netdev = dev,
		.queue_idx = idx,
	};
	struct page_pool *pool = page_pool_create(&p);

	if (IS_ERR(pool))
		return PTR_ERR(pool);
	q->pool = pool;
	return 0;
}

static void nic_mem_free(struct net_device *dev, void *mem)
{
	struct nic_queue *q = mem;

	page_pool_destroy(q->pool);
	q->pool = NULL;
}

static int nic_start(struct net_device *dev, struct nic_queue *q)
{
	struct nic *nic = netdev_priv(dev);

	spin_lock_bh(&nic->lock);
	nic->queue = *q;
	spin_unlock_bh(&nic->lock);
	return 0;
}

static int nic_stop(struct net_device *dev, void *mem, int idx)
{
	struct nic *nic = netdev_priv(dev);
	struct nic_queue *q = mem;

	spin_lock_bh(&nic->lock);
	*q = nic->queue;
	nic->queue.pool = NULL;
	spin_unlock_bh(&nic->lock);
	return 0;
}

NIC_QUEUE_OPS(nic_queue_ops, struct nic_queue, nic_mem_alloc, nic_mem_free, nic_start, nic_stop);

/* Where the CPU finds @netmem; the device knows no more than its DMA address. */
static void *nic_address(netmem_ref netmem)
{
	return phys_to_virt(page_pool_get_dma_addr_netmem(netmem));
}

/* Copy @len bytes at @offset of @skb, also from device memory, which the stack cannot read. */
static int nic_read(struct sk_buff *skb, unsigned int offset, void *to, unsigned int len)
{
	unsigned int at = skb_headlen(skb);
	int i;

	if (skb_frags_readable(skb))
		return skb_copy_bits(skb, offset, to, len);
	if (offset < at)
		return -EINVAL;
	for (i = 0; i < skb_shinfo(skb)->nr_frags && len; i++) {
		skb_frag_t *frag = &skb_shinfo(skb)->frags[i];
		unsigned int size = skb_frag_size(frag);

		if (offset < at + size) {
			unsigned int skip = offset - at;
			unsigned int n = min(len, size - skip);

			memcpy(to, nic_tx_address(frag) + skip, n);
			to += n;
			offset += n;
			len -= n;
		}
		at += size;
	}
	return len ? -EINVAL : 0;
}

/* Move the payload of @from, behind its first @at bytes, to memory of the queue. */
static int nic_fill(struct nic *nic, struct sk_buff *skb, struct sk_buff *from, unsigned int at)
{
	int i, rc;

	for (i = 0; at < from->len; i++) {
		unsigned int n = min_t(unsigned int, from->len - at, PAGE_SIZE);
		netmem_ref netmem = 0;

		if (i == MAX_SKB_FRAGS)
			return -EMSGSIZE;
		if (nic->queue.pool)
			netmem = page_pool_alloc_netmems(nic->queue.pool, GFP_ATOMIC);
		if (!netmem)
			return -ENOMEM;
		skb_add_rx_frag_netmem(skb, i, netmem, 0, n, PAGE_SIZE);
		rc = nic_read(from, at, nic_address(netmem), n);
		if (rc)
			return rc;
		at += n;
	}
	return 0;
}

/* What @nic receives when its peer sends @from; NULL without memory for it. */
static struct sk_buff *nic_receive(struct nic *nic, struct sk_buff *from)
{
	bool tcp = from->protocol == htons(ETH_P_IP) && ip_hdr(from)->protocol == IPPROTO_TCP;
	unsigned int head = from->len;
	struct sk_buff *skb;
	int rc;

	if (tcp)
		head = skb_tcp_all_headers(from);
	skb = netdev_alloc_skb(nic->dev, head);
	if (!skb)
		return NULL;
	skb_mark_for_recycle(skb);
	rc = skb_copy_bits(from, 0, skb_put(skb, head), head);
	if (!rc && head < from->len) {
		spin_lock(&nic->lock);
		rc = nic_fill(nic, skb, from, head);
		spin_unlock(&nic->lock);
	}
	if (rc) {
		kfree_skb(skb);
		return NULL;
	}
	skb->ip_summed = CHECKSUM_UNNECESSARY;
	skb->protocol = eth_type_trans(skb, nic->dev);
	return skb;
}

static netdev_tx_t nic_xmit(struct sk_buff *skb, struct net_device *dev)
{
	struct nic *nic = netdev_priv(dev);
	struct sk_buff *got;

	got = netif_running(nic->peer) ? nic_receive(netdev_priv(nic->peer), skb) : NULL;
	if (got) {
		dev_sw_netstats_tx_add(dev, 1, skb->len);
		dev_sw_netstats_rx_add(nic->peer, skb->len);
		netif_rx(got);
		consume_skb(skb);
	} else {
		DEV_STATS_INC(nic->peer, rx_dropped);
		kfree_skb(skb);
	}
	return NETDEV_TX_OK;
}

static int nic_open(struct net_device *dev)
{
	struct nic_queue q = {};
	int rc = nic_mem_alloc(dev, &q, 0);

	if (!rc) {
		nic_start(dev, &q);
		netif_start_queue(dev);
	}
	return rc;
}

static int nic_close(struct net_device *dev)
{
	struct nic_queue q = {};

	netif_stop_queue(dev);
	nic_stop(dev, &q, 0);
	nic_mem_free(dev, &q);
	return 0;
}

static const struct net_device_ops nic_ops = {
	.ndo_open = nic_open,
	.ndo_stop = nic_close,
	.ndo_start_xmit = nic_xmit,
	.ndo_set_mac_address = eth_mac_addr,
	.ndo_validate_addr = eth_validate_addr,
};

static void nic_get_ring(struct net_device *dev, struct ethtool_ringparam *ring,
			 struct kernel_ethtool_ringparam *kernel, struct netlink_ext_ack *extack)
{
	struct nic *nic = netdev_priv(dev);

	ring->rx_max_pending = NIC_POOL_SIZE;
	ring->rx_pending = NIC_POOL_SIZE;
	kernel->tcp_data_split = nic->split;
}

static int nic_set_ring(struct net_device *dev, struct ethtool_ringparam *ring,
			struct kernel_ethtool_ringparam *kernel, struct netlink_ext_ack *extack)
{
	struct nic *nic = netdev_priv(dev);

	nic->split = kernel->tcp_data_split;
	return 0;
}

static const struct ethtool_ops nic_ethtool_ops = {
	.supported_ring_params = NIC_RING_PARAMS,
	.get_link = ethtool_op_get_link,
	.get_ringparam = nic_get_ring,
	.set_ringparam = nic_set_ring,
};

static void nic_setup(struct net_device *dev)
{
	ether_setup(dev);
	eth_hw_addr_random(dev);
	dev->netdev_ops = &nic_ops;
	dev->ethtool_ops = &nic_ethtool_ops;
	dev->queue_mgmt_ops = &nic_queue_ops;
	dev->pcpu_stat_type = NETDEV_PCPU_STAT_TSTATS;
	dev->needs_free_netdev = false;
	/* Device memory cannot be copied or summed: its fragments are passed on as they are. */
	dev->features |= NETIF_F_SG | NETIF_F_HW_CSUM | NETIF_F_HIGHDMA;
	dev->hw_features |= NETIF_F_SG | NETIF_F_HW_CSUM;
	dev->priv_flags |= IFF_NO_QUEUE;
	nic_allow_tx(dev);
}

static void nic_remove(int i)
{
	struct nic *nic = nics[i];
	struct platform_device *parent;

	if (!nic)
		return;
	parent = nic->parent;
	if (nic->dev->reg_state == NETREG_REGISTERED)
		unregister_netdev(nic->dev);
	nics[i] = NULL;
	free_netdev(nic->dev);
	platform_device_unregister(parent);
}

static int nic_add(int i)
{
	struct platform_device *parent = platform_device_register_simple("gpumem_nic", i, NULL, 0);
	struct net_device *dev;
	struct nic *nic;
	int rc;

	if (IS_ERR(parent))
		return PTR_ERR(parent);
	rc = dma_coerce_mask_and_coherent(&parent->dev, DMA_BIT_MASK(64));
	dev = rc ? NULL : alloc_netdev(sizeof(*nic), "gpunic%d", NET_NAME_ENUM, nic_setup);
	if (!dev) {
		platform_device_unregister(parent);
		return rc ? rc : -ENOMEM;
	}
	SET_NETDEV_DEV(dev, &parent->dev);
	nic = netdev_priv(dev);
	nic->dev = dev;
	nic->parent = parent;
	spin_lock_init(&nic->lock);
	nics[i] = nic;
	return 0;
}

static int __init nic_init(void)
{
	int i, rc = 0;

	for (i = 0; i < 2 && !rc; i++)
		rc = nic_add(i);
	for (i = 0; i < 2 && !rc; i++) {
		nics[i]->peer = nics[!i]->dev;
		rc = register_netdev(nics[i]->dev);
	}
	for (i = 0; i < 2 && rc; i++)
		nic_remove(i);
	return rc;
}

static void __exit nic_exit(void)
{
	int i;

	/* A sender of one may be in the other's memory: end both before either is freed. */
	for (i = 0; i < 2; i++)
		unregister_netdev(nics[i]->dev);
	for (i = 0; i < 2; i++)
		nic_remove(i);
}

module_init(nic_init);
module_exit(nic_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("A pair of network devices that receive into device memory, for tests");
