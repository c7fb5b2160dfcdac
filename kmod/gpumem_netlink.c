// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_netlink: a generic netlink family that lists devices, clients and
 * objects, and reports which limit refused a request.
 *
 * Documentation/netlink/gpumem.yaml specifies the family.  The policies and the
 * table of operations below have the form that the kernel's ynl-gen-c gives
 * them; selftests/host/netlink_check.sh compares both with the specification.
 *
 * Visibility: devices are as public as their attributes in sysfs.  Clients and
 * their objects are shown to CAP_SYS_ADMIN.  They are also shown to the user
 * who opened them if the rules of ptrace() allow it, as for /proc/PID/fdinfo:
 * the same user and group, the same user namespace, no capability that the
 * reader lacks.  In both cases the reader's pid namespace must show the
 * process.  The socket's opener and the sender of the request must both
 * qualify, so a socket handed to a privileged program gains nothing.  The
 * reader's credentials and pid namespace are taken once, when a dump starts,
 * and referenced until it ends.
 *
 * Clients belong to no network namespace, and what is shown depends on the
 * reader alone, so the family exists in all network namespaces.  A multicast
 * message is the same for all receivers and has the pids and uids of the
 * initial namespaces.  So the module sends it in the initial network namespace
 * only, to holders of CAP_SYS_ADMIN there.
 *
 * A dump continues in the context of the task that reads the socket, over any
 * number of buffers.  Between buffers it keeps its position, but no lock and no
 * reference on a client.  Clients are referenced while their messages are
 * built; objects are not.  A dump during which an object came or went is marked
 * NLM_F_DUMP_INTR.  An unfinished dump keeps the module loaded.
 *
 * Reports of refusals are limited to GPUMEM_REFUSALS_CLIENT a second for each
 * client and to GPUMEM_REFUSALS_USER a second for each user together with the
 * users subordinate to it.  The next report of a client has the number of its
 * reports that were not sent.  The limit of one user does not affect reports of
 * other users.
 *
 * Locks: gpumem_nl_lock (spin) protects the rates of reports and the refusals
 * that clients keep for GPUMEM_REFUSAL.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/jiffies.h>
#include <linux/pid_namespace.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>
#include <net/genetlink.h>
#include <net/netlink.h>
#include <net/sock.h>

#include "gpumem_cache.h"
#include "gpumem_client.h"
#include "gpumem_device.h"
#include "gpumem_engine.h"
#include "gpumem_ioctl.h"
#include "gpumem_linger.h"
#include "gpumem_lock.h"
#include "gpumem_mem.h"
#include "gpumem_object.h"
#include "gpumem_refusal.h"
#include "gpumem_shmem.h"
#include "gpumem_trace.h"
#include "gpumem_user.h"

#define GPUMEM_REFUSALS_CLIENT	10
#define GPUMEM_REFUSALS_USER	50

enum {
	GPUMEM_NLGRP_LIMITS,
};

static int gpumem_nl_device_get_doit(struct sk_buff *skb,
				     struct genl_info *info);
static int gpumem_nl_device_get_dumpit(struct sk_buff *skb,
				       struct netlink_callback *cb);
static int gpumem_nl_host_get_doit(struct sk_buff *skb, struct genl_info *info);
static int gpumem_nl_client_get_dumpit(struct sk_buff *skb,
				       struct netlink_callback *cb);
static int gpumem_nl_object_get_dumpit(struct sk_buff *skb,
				       struct netlink_callback *cb);
static int gpumem_nl_dump_start(struct netlink_callback *cb);
static int gpumem_nl_dump_done(struct netlink_callback *cb);

/* Operations without attributes refuse all of them, on every kernel. */
static const struct nla_policy gpumem_no_nl_policy[] = {
	[1] = { .type = NLA_REJECT },
};

/* GPUMEM_NL_CMD_DEVICE_GET - do */
static const struct nla_policy gpumem_device_get_nl_policy[GPUMEM_A_DEVICE_INDEX + 1] = {
	[GPUMEM_A_DEVICE_INDEX] = { .type = NLA_U32, },
};

/* GPUMEM_NL_CMD_CLIENT_GET - dump */
static const struct nla_policy gpumem_client_get_nl_policy[GPUMEM_A_CLIENT_DEVICE + 1] = {
	[GPUMEM_A_CLIENT_ID] = { .type = NLA_U32, },
	[GPUMEM_A_CLIENT_DEVICE] = { .type = NLA_U32, },
};

/* GPUMEM_NL_CMD_OBJECT_GET - dump */
static const struct nla_policy gpumem_object_get_nl_policy[GPUMEM_A_OBJECT_CLIENT + 1] = {
	[GPUMEM_A_OBJECT_CLIENT] = { .type = NLA_U32, },
};

/* Ops table for gpumem */
static const struct genl_split_ops gpumem_nl_ops[] = {
	{
		.cmd		= GPUMEM_NL_CMD_DEVICE_GET,
		.doit		= gpumem_nl_device_get_doit,
		.policy		= gpumem_device_get_nl_policy,
		.maxattr	= GPUMEM_A_DEVICE_INDEX,
		.flags		= GENL_CMD_CAP_DO,
	},
	{
		.cmd		= GPUMEM_NL_CMD_DEVICE_GET,
		.dumpit		= gpumem_nl_device_get_dumpit,
		.policy		= gpumem_no_nl_policy,
		.maxattr	= ARRAY_SIZE(gpumem_no_nl_policy) - 1,
		.flags		= GENL_CMD_CAP_DUMP,
	},
	{
		.cmd		= GPUMEM_NL_CMD_HOST_GET,
		.doit		= gpumem_nl_host_get_doit,
		.policy		= gpumem_no_nl_policy,
		.maxattr	= ARRAY_SIZE(gpumem_no_nl_policy) - 1,
		.flags		= GENL_CMD_CAP_DO,
	},
	{
		.cmd		= GPUMEM_NL_CMD_CLIENT_GET,
		.start		= gpumem_nl_dump_start,
		.dumpit		= gpumem_nl_client_get_dumpit,
		.done		= gpumem_nl_dump_done,
		.policy		= gpumem_client_get_nl_policy,
		.maxattr	= GPUMEM_A_CLIENT_DEVICE,
		.flags		= GENL_CMD_CAP_DUMP,
	},
	{
		.cmd		= GPUMEM_NL_CMD_OBJECT_GET,
		.start		= gpumem_nl_dump_start,
		.dumpit		= gpumem_nl_object_get_dumpit,
		.done		= gpumem_nl_dump_done,
		.policy		= gpumem_object_get_nl_policy,
		.maxattr	= GPUMEM_A_OBJECT_CLIENT,
		.flags		= GENL_CMD_CAP_DUMP,
	},
};

static const struct genl_multicast_group gpumem_nl_mcgrps[] = {
	[GPUMEM_NLGRP_LIMITS] = {
		.name = GPUMEM_MCGRP_LIMITS,
		.flags = GENL_MCAST_CAP_SYS_ADMIN,
	},
};

static struct genl_family gpumem_nl_family __ro_after_init = {
	.name		= GPUMEM_FAMILY_NAME,
	.version	= GPUMEM_FAMILY_VERSION,
	.netnsok	= true,
	.parallel_ops	= true,
	.module		= THIS_MODULE,
	.split_ops	= gpumem_nl_ops,
	.n_split_ops	= ARRAY_SIZE(gpumem_nl_ops),
	.mcgrps		= gpumem_nl_mcgrps,
	.n_mcgrps	= ARRAY_SIZE(gpumem_nl_mcgrps),
};

/**
 * struct gpumem_nl_dump - a dump under way, in cb->ctx
 * @pid_ns: the reader's; referenced
 * @cred: the reader's; referenced
 * @object: position in the objects of @client
 * @caps: capabilities that both the reader and the socket's opener have
 * @client: id of the client to continue with
 * @last: id of the last client that was asked for
 * @user: show the clients that the reader's user opened
 * @admin: show all clients
 */
struct gpumem_nl_dump {
	struct pid_namespace *pid_ns;
	const struct cred *cred;
	u64 object;
	kernel_cap_t caps;
	u32 client;
	u32 last;
	bool user;
	bool admin;
};

static_assert(sizeof(struct gpumem_nl_dump) <=
	      sizeof_field(struct netlink_callback, ctx));

/* Protects the rates of clients and users, and gpumem_client.refused. */
static DEFINE_SPINLOCK(gpumem_nl_lock);

static const u32 gpumem_nl_types[GPUMEM_OBJ_TYPES] = {
	[GPUMEM_OBJ_BO] = GPUMEM_OBJECT_TYPE_BO,
	[GPUMEM_OBJ_TOKEN] = GPUMEM_OBJECT_TYPE_TOKEN,
	[GPUMEM_OBJ_VM] = GPUMEM_OBJECT_TYPE_VM,
	[GPUMEM_OBJ_STREAM] = GPUMEM_OBJECT_TYPE_STREAM,
	[GPUMEM_OBJ_TIMELINE] = GPUMEM_OBJECT_TYPE_TIMELINE,
	[GPUMEM_OBJ_TIMELINE_REF] = GPUMEM_OBJECT_TYPE_TIMELINE_REF,
	[GPUMEM_OBJ_EVENT] = GPUMEM_OBJECT_TYPE_EVENT,
	[GPUMEM_OBJ_POOL] = GPUMEM_OBJECT_TYPE_POOL,
	[GPUMEM_OBJ_POOL_REF] = GPUMEM_OBJECT_TYPE_POOL_REF,
};

#define GPUMEM_NL_COUNTER(_attr, _field)	\
	{ GPUMEM_A_CLIENT_##_attr, offsetof(struct gpumem_counters, _field) }

static const struct {
	int attr;
	size_t offset;
} gpumem_nl_counters[] = {
	GPUMEM_NL_COUNTER(OBJECTS, objects),
	GPUMEM_NL_COUNTER(BOS, bos),
	GPUMEM_NL_COUNTER(BO_BYTES, bo_bytes),
	GPUMEM_NL_COUNTER(VIEWS, views),
	GPUMEM_NL_COUNTER(VIEW_BYTES, view_bytes),
	GPUMEM_NL_COUNTER(VM_BYTES, vm_bytes),
	GPUMEM_NL_COUNTER(EXPORTS, exports),
	GPUMEM_NL_COUNTER(EXPORT_BYTES, export_bytes),
	GPUMEM_NL_COUNTER(TOKENS, tokens),
	GPUMEM_NL_COUNTER(STREAMS, streams),
	GPUMEM_NL_COUNTER(JOBS, jobs),
	GPUMEM_NL_COUNTER(COPY_BYTES, copy_bytes),
	GPUMEM_NL_COUNTER(FILL_BYTES, fill_bytes),
	GPUMEM_NL_COUNTER(DOORBELLS, doorbells),
	GPUMEM_NL_COUNTER(PINS, pins),
	GPUMEM_NL_COUNTER(PIN_BYTES, pin_bytes),
	GPUMEM_NL_COUNTER(HOST, host),
	GPUMEM_NL_COUNTER(HOST_BYTES, host_bytes),
	GPUMEM_NL_COUNTER(POOLS, pools),
	GPUMEM_NL_COUNTER(POOL_IMPORTS, pool_imports),
	GPUMEM_NL_COUNTER(IMPORTS, imports),
	GPUMEM_NL_COUNTER(IMPORT_BYTES, import_bytes),
	GPUMEM_NL_COUNTER(MAPPINGS, mappings),
	GPUMEM_NL_COUNTER(RING_BYTES, ring_bytes),
	GPUMEM_NL_COUNTER(MANAGED, managed),
	GPUMEM_NL_COUNTER(MANAGED_RESIDENT, managed_resident),
	GPUMEM_NL_COUNTER(MANAGED_FAULTS, managed_faults),
	GPUMEM_NL_COUNTER(MANAGED_EVICTIONS, managed_evictions),
	GPUMEM_NL_COUNTER(MANAGED_IN, managed_in),
	GPUMEM_NL_COUNTER(MANAGED_OUT, managed_out),
	GPUMEM_NL_COUNTER(MANAGED_HELD, managed_held),
	GPUMEM_NL_COUNTER(MANAGED_THRASH, managed_thrash),
	GPUMEM_NL_COUNTER(MANAGED_MOVED, managed_moved),
	GPUMEM_NL_COUNTER(MANAGED_STAYED, managed_stayed),
	GPUMEM_NL_COUNTER(MANAGED_DUPLICATED, managed_duplicated),
	GPUMEM_NL_COUNTER(MANAGED_DUPLICATIONS, managed_duplications),
	GPUMEM_NL_COUNTER(MANAGED_COLLAPSES, managed_collapses),
	GPUMEM_NL_COUNTER(ENGINE_NS, engine_ns),
};

static int gpumem_nl_put_mem(struct sk_buff *skb, int first, int pad,
			     struct gpumem_mem *mem)
{
	/* "used", "orphaned" and "lingering" follow each other. */
	return nla_put_u64_64bit(skb, first, gpumem_linger_used(mem), pad) ?:
	       nla_put_u64_64bit(skb, first + 1,
				 atomic64_read(&mem->orphaned), pad) ?:
	       nla_put_u64_64bit(skb, first + 2,
				 atomic64_read(&mem->lingering), pad);
}

static int gpumem_nl_put_device(struct sk_buff *skb, struct gpumem_device *dev)
{
	const int pad = GPUMEM_A_DEVICE_PAD;

	if (nla_put_u32(skb, GPUMEM_A_DEVICE_INDEX, dev->ordinal) ||
	    nla_put(skb, GPUMEM_A_DEVICE_UUID, sizeof(dev->uuid), dev->uuid) ||
	    nla_put_string(skb, GPUMEM_A_DEVICE_ENGINE,
			   dev->engine->ops->name) ||
	    nla_put_s32(skb, GPUMEM_A_DEVICE_NODE, dev->mem.node) ||
	    nla_put_u64_64bit(skb, GPUMEM_A_DEVICE_TOTAL,
			      gpumem_size(&dev->mem), pad) ||
	    gpumem_nl_put_mem(skb, GPUMEM_A_DEVICE_USED, pad, &dev->mem) ||
	    nla_put_u64_64bit(skb, GPUMEM_A_DEVICE_PINNED,
			      atomic64_read(&dev->pinned), pad) ||
	    nla_put_u32(skb, GPUMEM_A_DEVICE_CLIENTS,
			atomic_read(&dev->clients)) ||
	    nla_put_u32(skb, GPUMEM_A_DEVICE_BOS, atomic_read(&dev->bos)) ||
	    nla_put_u32(skb, GPUMEM_A_DEVICE_EXPORTS,
			atomic_read(&dev->exports)) ||
	    nla_put_u32(skb, GPUMEM_A_DEVICE_VIEWS, atomic_read(&dev->views)) ||
	    nla_put_u32(skb, GPUMEM_A_DEVICE_POOLS, atomic_read(&dev->pools)) ||
	    nla_put_u32(skb, GPUMEM_A_DEVICE_IMPORTS,
			atomic_read(&dev->imports)) ||
	    nla_put_u64_64bit(skb, GPUMEM_A_DEVICE_MANAGED,
			      READ_ONCE(dev->mem.managed), pad) ||
	    nla_put_u64_64bit(skb, GPUMEM_A_DEVICE_ENGINE_NS,
			      atomic64_read(&dev->engine_ns), pad) ||
	    nla_put_u64_64bit(skb, GPUMEM_A_DEVICE_COPY_BYTES,
			      atomic64_read(&dev->copy_bytes), pad) ||
	    nla_put_u64_64bit(skb, GPUMEM_A_DEVICE_FILL_BYTES,
			      atomic64_read(&dev->fill_bytes), pad))
		return -EMSGSIZE;
	return 0;
}

static int gpumem_nl_device_get_doit(struct sk_buff *skb,
				     struct genl_info *info)
{
	struct gpumem_device *dev;
	struct sk_buff *msg;
	void *hdr;

	if (GENL_REQ_ATTR_CHECK(info, GPUMEM_A_DEVICE_INDEX))
		return -EINVAL;
	dev = gpumem_device_nth(nla_get_u32(info->attrs[GPUMEM_A_DEVICE_INDEX]));
	if (!dev) {
		NL_SET_ERR_MSG_ATTR(info->extack,
				    info->attrs[GPUMEM_A_DEVICE_INDEX],
				    "no such device");
		return -ENODEV;
	}
	msg = genlmsg_new(GENLMSG_DEFAULT_SIZE, GFP_KERNEL);
	if (!msg)
		return -ENOMEM;
	hdr = genlmsg_iput(msg, info);
	if (!hdr || gpumem_nl_put_device(msg, dev)) {
		nlmsg_free(msg);
		return -EMSGSIZE;
	}
	genlmsg_end(msg, hdr);
	return genlmsg_reply(msg, info);
}

static int gpumem_nl_host_get_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct sk_buff *msg = genlmsg_new(GENLMSG_DEFAULT_SIZE, GFP_KERNEL);
	void *hdr;

	if (!msg)
		return -ENOMEM;
	hdr = genlmsg_iput(msg, info);
	if (!hdr ||
	    gpumem_nl_put_mem(msg, GPUMEM_A_HOST_USED, GPUMEM_A_HOST_PAD,
			      &gpumem_host_mem) ||
	    nla_put_u64_64bit(msg, GPUMEM_A_HOST_PIN_LIMIT, gpumem_pin_budget(),
			      GPUMEM_A_HOST_PAD) ||
	    nla_put_u64_64bit(msg, GPUMEM_A_HOST_PINNED, gpumem_pin_used(),
			      GPUMEM_A_HOST_PAD) ||
	    nla_put_u64_64bit(msg, GPUMEM_A_HOST_PIN_TOTAL,
			      gpumem_pin_budget_all(), GPUMEM_A_HOST_PAD) ||
	    nla_put_u64_64bit(msg, GPUMEM_A_HOST_RING_LIMIT,
			      gpumem_ring_budget(), GPUMEM_A_HOST_PAD) ||
	    nla_put_u64_64bit(msg, GPUMEM_A_HOST_RINGS, gpumem_ring_used(),
			      GPUMEM_A_HOST_PAD) ||
	    nla_put_u64_64bit(msg, GPUMEM_A_HOST_RING_TOTAL,
			      gpumem_ring_budget_all(), GPUMEM_A_HOST_PAD) ||
	    nla_put_u64_64bit(msg, GPUMEM_A_HOST_MANAGED,
			      gpumem_linger_used(&gpumem_managed_mem),
			      GPUMEM_A_HOST_PAD)) {
		nlmsg_free(msg);
		return -EMSGSIZE;
	}
	genlmsg_end(msg, hdr);
	return genlmsg_reply(msg, info);
}

static void gpumem_nl_stamp(struct netlink_callback *cb)
{
	cb->seq = atomic_read(&gpumem_generation);
}

/* Begin a message of a dump. */
static void *gpumem_nl_begin(struct sk_buff *skb, struct netlink_callback *cb,
			     u8 cmd)
{
	void *hdr = genlmsg_put(skb, NETLINK_CB(cb->skb).portid,
				cb->nlh->nlmsg_seq, &gpumem_nl_family,
				NLM_F_MULTI, cmd);

	if (hdr)
		genl_dump_check_consistent(cb, hdr);
	return hdr;
}

/* End a message of a dump, or remove it from @skb if it did not fit. */
static int gpumem_nl_end(struct sk_buff *skb, void *hdr, int ret)
{
	if (ret)
		genlmsg_cancel(skb, hdr);
	else
		genlmsg_end(skb, hdr);
	return ret;
}

static int gpumem_nl_device_get_dumpit(struct sk_buff *skb,
				       struct netlink_callback *cb)
{
	struct gpumem_device *dev;
	int ret = 0;
	void *hdr;

	if (!gpumem_is_live())
		return -ENODEV;
	/* Devices come and go with the module, which the dump holds. */
	while (!ret && (dev = gpumem_device_nth(cb->args[0]))) {
		hdr = gpumem_nl_begin(skb, cb, GPUMEM_NL_CMD_DEVICE_GET);
		if (!hdr)
			return -EMSGSIZE;
		ret = gpumem_nl_end(skb, hdr, gpumem_nl_put_device(skb, dev));
		if (!ret)
			cb->args[0]++;
	}
	return ret;
}

static int gpumem_nl_dump_start(struct netlink_callback *cb)
{
	struct gpumem_nl_dump *dump = (void *)cb->ctx;
	const struct genl_info *info = genl_info_dump(cb);
	const struct file *file = NETLINK_CB(cb->skb).sk->sk_socket->file;
	const struct cred *cred = current_cred(), *opener = file->f_cred;
	struct nlattr *one;

	/* An unfinished dump holds the module. */
	if (!gpumem_is_live())
		return -ENODEV;
	one = info->genlhdr->cmd == GPUMEM_NL_CMD_CLIENT_GET ?
	      info->attrs[GPUMEM_A_CLIENT_ID] :
	      info->attrs[GPUMEM_A_OBJECT_CLIENT];
	dump->client = one ? nla_get_u32(one) : 0;
	dump->last = one ? dump->client : U32_MAX;
	/*
	 * netlink_capable() does not check the opener if the sender gave a
	 * destination address, so file_ns_capable() does.
	 */
	dump->admin = file_ns_capable(file, &init_user_ns, CAP_SYS_ADMIN) &&
		      netlink_capable(cb->skb, CAP_SYS_ADMIN);
	dump->user = uid_eq(opener->euid, cred->euid) &&
		     gid_eq(opener->egid, cred->egid) &&
		     opener->user_ns == cred->user_ns;
	dump->caps = cap_intersect(opener->cap_effective, cred->cap_effective);
	dump->pid_ns = get_pid_ns(task_active_pid_ns(current));
	dump->cred = get_cred(cred);
	return 0;
}

static int gpumem_nl_dump_done(struct netlink_callback *cb)
{
	struct gpumem_nl_dump *dump = (void *)cb->ctx;

	put_cred(dump->cred);
	put_pid_ns(dump->pid_ns);
	return 0;
}

static bool gpumem_nl_visible(struct gpumem_nl_dump *dump,
			      struct gpumem_client *client)
{
	const struct cred *cred = client->cred, *reader = dump->cred;

	if (!pid_nr_ns(client->pid, dump->pid_ns))
		return false;
	if (dump->admin)
		return true;
	/* Hide the clients of programs that have more capabilities. */
	return dump->user && cred->user_ns == reader->user_ns &&
	       uid_eq(reader->euid, cred->uid) &&
	       uid_eq(reader->euid, cred->euid) &&
	       uid_eq(reader->euid, cred->suid) &&
	       gid_eq(reader->egid, cred->gid) &&
	       gid_eq(reader->egid, cred->egid) &&
	       gid_eq(reader->egid, cred->sgid) &&
	       cap_issubset(cred->cap_permitted, dump->caps);
}

/* The next client that was asked for and is visible, referenced, or NULL. */
static struct gpumem_client *gpumem_nl_next(struct gpumem_nl_dump *dump)
{
	struct gpumem_client *client;
	unsigned long id = dump->client;

	while ((client = gpumem_client_next(&id))) {
		if (id != dump->client)
			dump->object = 0;
		dump->client = id;
		if (id <= dump->last && gpumem_nl_visible(dump, client))
			return client;
		gpumem_client_put(client);
		if (id >= dump->last)
			return NULL;
		id++;
		cond_resched();
	}
	return NULL;
}

static int gpumem_nl_put_client(struct sk_buff *skb, struct netlink_callback *cb,
				struct gpumem_client *client)
{
	struct gpumem_nl_dump *dump = (void *)cb->ctx;
	void *hdr = gpumem_nl_begin(skb, cb, GPUMEM_NL_CMD_CLIENT_GET);
	const struct gpumem_cache_filter any = {};
	u64 reserved, cached;
	unsigned int i;
	int ret;

	if (!hdr)
		return -EMSGSIZE;
	ret = nla_put_u32(skb, GPUMEM_A_CLIENT_ID, client->id) ?:
	      nla_put_u32(skb, GPUMEM_A_CLIENT_PID,
			  pid_nr_ns(client->pid, dump->pid_ns)) ?:
	      nla_put_string(skb, GPUMEM_A_CLIENT_COMM, client->comm) ?:
	      nla_put_u32(skb, GPUMEM_A_CLIENT_UID,
			  from_kuid_munged(dump->cred->user_ns,
					   client->cred->euid)) ?:
	      nla_put_u32(skb, GPUMEM_A_CLIENT_DEVICE,
			  client->devices[0]->ordinal);
	if (!ret && test_bit(GPUMEM_CLIENT_DEAD, &client->state))
		ret = nla_put_flag(skb, GPUMEM_A_CLIENT_DEAD);
	for (i = 0; !ret && i < ARRAY_SIZE(gpumem_nl_counters); i++) {
		atomic64_t *count = (void *)&client->count +
				    gpumem_nl_counters[i].offset;

		ret = nla_put_u64_64bit(skb, gpumem_nl_counters[i].attr,
					atomic64_read(count),
					GPUMEM_A_CLIENT_PAD);
	}
	reserved = atomic64_read(&client->count.pool_reserved);
	cached = min(gpumem_cache_bytes(client, &any), reserved);
	ret = ret ?:
	      nla_put_u64_64bit(skb, GPUMEM_A_CLIENT_POOL_RESERVED,
				reserved - cached, GPUMEM_A_CLIENT_PAD) ?:
	      nla_put_u64_64bit(skb, GPUMEM_A_CLIENT_POOL_CACHED, cached,
				GPUMEM_A_CLIENT_PAD);
	return gpumem_nl_end(skb, hdr, ret);
}

static int gpumem_nl_client_get_dumpit(struct sk_buff *skb,
				       struct netlink_callback *cb)
{
	struct gpumem_nl_dump *dump = (void *)cb->ctx;
	struct nlattr **attrs = genl_info_dump(cb)->attrs;
	struct nlattr *device = attrs[GPUMEM_A_CLIENT_DEVICE];
	struct gpumem_client *client;
	int ret = 0;

	gpumem_nl_stamp(cb);
	while (!ret && (client = gpumem_nl_next(dump))) {
		if (!device ||
		    nla_get_u32(device) == client->devices[0]->ordinal)
			ret = gpumem_nl_put_client(skb, cb, client);
		gpumem_client_put(client);
		if (!ret)
			dump->client++;
	}
	/* The last message has the mark if objects changed during the dump. */
	if (!ret)
		gpumem_nl_stamp(cb);
	return ret;
}

static int gpumem_nl_put_pool(struct sk_buff *skb,
			      const struct gpumem_pool_counters *f)
{
	const int pad = GPUMEM_A_OBJECT_PAD;

	if ((f->limit &&
	     nla_put_u64_64bit(skb, GPUMEM_A_OBJECT_LIMIT, f->limit, pad)) ||
	    nla_put_u64_64bit(skb, GPUMEM_A_OBJECT_RESERVED, f->reserved,
			      pad) ||
	    nla_put_u64_64bit(skb, GPUMEM_A_OBJECT_RESERVED_HIGH,
			      f->reserved_high, pad) ||
	    nla_put_u64_64bit(skb, GPUMEM_A_OBJECT_CLIENT_USED, f->used,
			      pad) ||
	    nla_put_u64_64bit(skb, GPUMEM_A_OBJECT_CLIENT_USED_HIGH,
			      f->used_high, pad) ||
	    nla_put_u64_64bit(skb, GPUMEM_A_OBJECT_CHUNKS, f->chunks, pad) ||
	    nla_put_u64_64bit(skb, GPUMEM_A_OBJECT_IMPORTS, f->imports, pad) ||
	    nla_put_u64_64bit(skb, GPUMEM_A_OBJECT_CACHED, f->cached, pad))
		return -EMSGSIZE;
	return 0;
}

static int gpumem_nl_put_managed(struct sk_buff *skb,
				 const struct gpumem_managed_stats *s)
{
	const int pad = GPUMEM_A_OBJECT_PAD;

	if (nla_put_u64_64bit(skb, GPUMEM_A_OBJECT_RESIDENT, s->resident,
			      pad) ||
	    nla_put_u64_64bit(skb, GPUMEM_A_OBJECT_FAULTS, s->faults, pad) ||
	    nla_put_u64_64bit(skb, GPUMEM_A_OBJECT_EVICTIONS, s->evictions,
			      pad) ||
	    nla_put_u64_64bit(skb, GPUMEM_A_OBJECT_THRASH, s->thrash, pad) ||
	    nla_put_u64_64bit(skb, GPUMEM_A_OBJECT_MOVED_IN, s->moved_in,
			      pad) ||
	    nla_put_u64_64bit(skb, GPUMEM_A_OBJECT_MOVED_OUT, s->moved_out,
			      pad))
		return -EMSGSIZE;
	return 0;
}

static int gpumem_nl_put_object(struct sk_buff *skb, struct netlink_callback *cb,
				struct gpumem_client *client,
				const struct gpumem_object_brief *brief)
{
	void *hdr = gpumem_nl_begin(skb, cb, GPUMEM_NL_CMD_OBJECT_GET);
	int ret;

	if (!hdr)
		return -EMSGSIZE;
	ret = nla_put_u32(skb, GPUMEM_A_OBJECT_CLIENT, client->id) ?:
	      nla_put_u32(skb, GPUMEM_A_OBJECT_ID, brief->id) ?:
	      nla_put_u32(skb, GPUMEM_A_OBJECT_TYPE,
			  gpumem_nl_types[brief->type]) ?:
	      nla_put_u32(skb, GPUMEM_A_OBJECT_FLAGS, brief->flags);
	if (!ret && brief->kind)
		ret = nla_put_u32(skb, GPUMEM_A_OBJECT_KIND, brief->kind);
	if (!ret && brief->dev)
		ret = nla_put_u32(skb, GPUMEM_A_OBJECT_DEVICE,
				  brief->dev->ordinal);
	if (!ret && brief->length)
		ret = nla_put_u64_64bit(skb, GPUMEM_A_OBJECT_LENGTH,
					brief->length, GPUMEM_A_OBJECT_PAD);
	if (!ret && brief->name[0])
		ret = nla_put_string(skb, GPUMEM_A_OBJECT_NAME, brief->name);
	if (!ret && brief->pool_id)
		ret = nla_put_u32(skb, GPUMEM_A_OBJECT_POOL, brief->pool_id);
	if (!ret && brief->type == GPUMEM_OBJ_POOL)
		ret = gpumem_nl_put_pool(skb, &brief->pool);
	if (!ret && brief->kind == GPUMEM_BO_MANAGED)
		ret = gpumem_nl_put_managed(skb, &brief->managed);
	return gpumem_nl_end(skb, hdr, ret);
}

static int gpumem_nl_object_get_dumpit(struct sk_buff *skb,
				       struct netlink_callback *cb)
{
	struct gpumem_nl_dump *dump = (void *)cb->ctx;
	struct gpumem_object_brief brief;
	struct gpumem_client *client;
	int ret = 0;

	gpumem_nl_stamp(cb);
	while (!ret && (client = gpumem_nl_next(dump))) {
		while (!ret &&
		       gpumem_object_next(client, &dump->object, &brief)) {
			ret = gpumem_nl_put_object(skb, cb, client, &brief);
			if (!ret)
				dump->object++;
		}
		gpumem_client_put(client);
		if (!ret) {
			dump->client++;
			dump->object = 0;
		}
	}
	if (!ret)
		gpumem_nl_stamp(cb);
	return ret;
}

static bool gpumem_rate_allows(struct gpumem_rate *rate, unsigned int max)
{
	lockdep_assert_held(&gpumem_nl_lock);
	if (!rate->begin || time_after_eq(jiffies, rate->begin + HZ)) {
		rate->begin = jiffies;
		rate->count = 0;
	}
	return rate->count < max;
}

/* May a report of @client be sent?  @missed: reports not sent before it. */
static bool gpumem_nl_may_report(struct gpumem_client *client, u32 *missed)
{
	struct gpumem_rate *user = gpumem_user_refusals(client->user);
	bool may;

	spin_lock(&gpumem_nl_lock);
	may = gpumem_rate_allows(&client->refusals, GPUMEM_REFUSALS_CLIENT) &&
	      gpumem_rate_allows(user, GPUMEM_REFUSALS_USER);
	if (may) {
		client->refusals.count++;
		user->count++;
		*missed = client->refusals_missed;
		client->refusals_missed = 0;
	} else {
		client->refusals_missed++;
	}
	spin_unlock(&gpumem_nl_lock);
	return may;
}

static void gpumem_nl_lost(struct gpumem_client *client, u32 n)
{
	spin_lock(&gpumem_nl_lock);
	client->refusals_missed += n;
	spin_unlock(&gpumem_nl_lock);
}

static int gpumem_nl_put_refusal(struct sk_buff *skb,
				 struct gpumem_client *client,
				 const struct gpumem_refusal *refusal,
				 u32 missed)
{
	void *hdr = genlmsg_put(skb, 0, 0, &gpumem_nl_family, 0,
				GPUMEM_NL_CMD_REFUSAL_NTF);
	const int pad = GPUMEM_A_REFUSAL_PAD;
	char comm[TASK_COMM_LEN];

	get_task_comm(comm, current->group_leader);
	if (!hdr ||
	    nla_put_u32(skb, GPUMEM_A_REFUSAL_LIMIT, refusal->limit) ||
	    (refusal->dev &&
	     nla_put_u32(skb, GPUMEM_A_REFUSAL_DEVICE,
			 refusal->dev->ordinal)) ||
	    nla_put_u32(skb, GPUMEM_A_REFUSAL_CLIENT, client->id) ||
	    nla_put_u32(skb, GPUMEM_A_REFUSAL_PID, task_tgid_nr(current)) ||
	    nla_put_u32(skb, GPUMEM_A_REFUSAL_UID,
			from_kuid_munged(&init_user_ns, current_euid())) ||
	    nla_put_string(skb, GPUMEM_A_REFUSAL_COMM, comm) ||
	    nla_put_u64_64bit(skb, GPUMEM_A_REFUSAL_ASKED, refusal->asked,
			      pad) ||
	    (refusal->max &&
	     (nla_put_u64_64bit(skb, GPUMEM_A_REFUSAL_USED, refusal->used,
				pad) ||
	      nla_put_u64_64bit(skb, GPUMEM_A_REFUSAL_BOUND, refusal->max,
				pad))) ||
	    nla_put_u32(skb, GPUMEM_A_REFUSAL_MISSED, missed) ||
	    (refusal->pool &&
	     nla_put_u32(skb, GPUMEM_A_REFUSAL_POOL, refusal->pool)))
		return -EMSGSIZE;
	genlmsg_end(skb, hdr);
	return 0;
}

/* Keep @refusal for GPUMEM_REFUSAL. */
static void gpumem_refusal_keep(struct gpumem_client *client,
				const struct gpumem_refusal *refusal)
{
	struct gpumem_refused *last = &client->refused;

	spin_lock(&gpumem_nl_lock);
	WRITE_ONCE(last->pid, task_pid_nr(current));
	last->info = (struct gpumem_refusal_info) {
		.limit = refusal->limit,
		.device = refusal->dev ? refusal->dev->ordinal : 0,
		.pool = refusal->pool,
		.asked = refusal->asked,
		.used = refusal->used,
		.max = refusal->max,
	};
	spin_unlock(&gpumem_nl_lock);
}

/**
 * gpumem_refusal_forget - drop the refusal of the calling thread's last call
 * @client: client of the new call
 *
 * Afterwards GPUMEM_REFUSAL returns no refusal of an earlier call, nor of an
 * earlier thread with the same id.
 *
 * Context: an ioctl of @client.
 */
void gpumem_refusal_forget(struct gpumem_client *client)
{
	struct gpumem_refused *last = &client->refused;

	spin_lock(&gpumem_nl_lock);
	if (last->pid == task_pid_nr(current))
		WRITE_ONCE(last->pid, 0);
	spin_unlock(&gpumem_nl_lock);
}

int gpumem_ioctl_refusal(struct gpumem_ucmd *ucmd)
{
	struct gpumem_refusal_info *cmd = ucmd->cmd, found = {};
	struct gpumem_refused *last = &ucmd->client->refused;

	spin_lock(&gpumem_nl_lock);
	if (last->pid == task_pid_nr(current)) {
		found = last->info;
		WRITE_ONCE(last->pid, 0);
	}
	spin_unlock(&gpumem_nl_lock);
	found.size = cmd->size;
	*cmd = found;
	return gpumem_ucmd_respond(ucmd, sizeof(*cmd));
}

/**
 * gpumem_refused - report that a limit refused an allocation
 * @client: client that asked for the allocation
 * @refusal: the allocation and the limit
 *
 * The thread can ask for the reason with GPUMEM_REFUSAL; listeners of the
 * netlink family receive it.
 *
 * Context: an ioctl of @client's process, a worker of @client, or a page fault
 * in a mapping of a ring, which another process may cause; no spinlocks.
 */
void gpumem_refused(struct gpumem_client *client,
		    const struct gpumem_refusal *refusal)
{
	struct sk_buff *skb;
	u32 missed = 0;

	trace_gpumem_refusal(client, refusal);
	/* A worker makes no ioctl that asks what it was refused. */
	if (!(current->flags & PF_USER_WORKER))
		gpumem_refusal_keep(client, refusal);
	if (!genl_has_listeners(&gpumem_nl_family, &init_net,
				GPUMEM_NLGRP_LIMITS))
		return;
	if (!gpumem_nl_may_report(client, &missed))
		return;
	/* Not charged: the caller's memory cgroup may be full. */
	skb = genlmsg_new(GENLMSG_DEFAULT_SIZE, GFP_KERNEL | __GFP_NOWARN);
	if (!skb || gpumem_nl_put_refusal(skb, client, refusal, missed)) {
		gpumem_nl_lost(client, missed + 1);
		nlmsg_free(skb);
		return;
	}
	genlmsg_multicast_netns(&gpumem_nl_family, &init_net, skb, 0,
				GPUMEM_NLGRP_LIMITS, GFP_KERNEL);
}

/**
 * gpumem_netlink_init - register the family
 *
 * Return: 0 or a negative errno.
 */
int __init gpumem_netlink_init(void)
{
	gpumem_lockdep_class(&gpumem_nl_lock, GPUMEM_LOCK_NETLINK);
	return genl_register_family(&gpumem_nl_family);
}

/**
 * gpumem_netlink_exit - unregister the family
 *
 * Waits for requests under way.  There is no dump under way, because a dump
 * keeps the module loaded.
 */
void gpumem_netlink_exit(void)
{
	genl_unregister_family(&gpumem_nl_family);
}
