// SPDX-License-Identifier: GPL-2.0
/*
 * The module's generic netlink family as arrays of structures, through libnl; nl.h describes the
 * functions.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <netlink/netlink.h>

#include "nl.h"
#include "printable.h"

#define TRIES	20

/* An array of elements of one size, which grows as a dump's messages arrive. */
struct array {
	void *data;
	size_t n, room, size;
	void (*parse)(struct nlattr **attrs, void *element);
	int max;
	bool failed;
};

static __u32 get32(struct nlattr **a, int attr)
{
	return a[attr] ? nla_get_u32(a[attr]) : 0;
}

static __u64 get64(struct nlattr **a, int attr)
{
	return a[attr] ? nla_get_u64(a[attr]) : 0;
}

static int get_device(struct nlattr **a, int attr)
{
	return a[attr] ? (int)nla_get_u32(a[attr]) : -1;
}

static void get_text(struct nlattr **a, int attr, char *text, size_t size)
{
	text[0] = 0;
	if (a[attr])
		nla_strlcpy(text, a[attr], size);
	/* A terminal obeys control characters. */
	printable(text);
}

static void parse_device(struct nlattr **a, void *element)
{
	struct gnl_device *d = element;

	d->index = get32(a, GPUMEM_A_DEVICE_INDEX);
	d->clients = get32(a, GPUMEM_A_DEVICE_CLIENTS);
	d->bos = get32(a, GPUMEM_A_DEVICE_BOS);
	d->exports = get32(a, GPUMEM_A_DEVICE_EXPORTS);
	d->views = get32(a, GPUMEM_A_DEVICE_VIEWS);
	d->pools = get32(a, GPUMEM_A_DEVICE_POOLS);
	d->imports = get32(a, GPUMEM_A_DEVICE_IMPORTS);
	d->managed = get64(a, GPUMEM_A_DEVICE_MANAGED);
	d->engine_ns = get64(a, GPUMEM_A_DEVICE_ENGINE_NS);
	d->copy_bytes = get64(a, GPUMEM_A_DEVICE_COPY_BYTES);
	d->fill_bytes = get64(a, GPUMEM_A_DEVICE_FILL_BYTES);
	d->total = get64(a, GPUMEM_A_DEVICE_TOTAL);
	d->used = get64(a, GPUMEM_A_DEVICE_USED);
	d->orphaned = get64(a, GPUMEM_A_DEVICE_ORPHANED);
	d->lingering = get64(a, GPUMEM_A_DEVICE_LINGERING);
	d->pinned = get64(a, GPUMEM_A_DEVICE_PINNED);
}

static void parse_host(struct nlattr **a, void *element)
{
	struct gnl_host *h = element;

	h->used = get64(a, GPUMEM_A_HOST_USED);
	h->orphaned = get64(a, GPUMEM_A_HOST_ORPHANED);
	h->lingering = get64(a, GPUMEM_A_HOST_LINGERING);
	h->pin_limit = get64(a, GPUMEM_A_HOST_PIN_LIMIT);
	h->pinned = get64(a, GPUMEM_A_HOST_PINNED);
	h->pin_total = get64(a, GPUMEM_A_HOST_PIN_TOTAL);
	h->ring_limit = get64(a, GPUMEM_A_HOST_RING_LIMIT);
	h->rings = get64(a, GPUMEM_A_HOST_RINGS);
	h->ring_total = get64(a, GPUMEM_A_HOST_RING_TOTAL);
	h->managed = get64(a, GPUMEM_A_HOST_MANAGED);
}

static void parse_client(struct nlattr **a, void *element)
{
	struct gnl_client *c = element;

	c->id = get32(a, GPUMEM_A_CLIENT_ID);
	c->pid = get32(a, GPUMEM_A_CLIENT_PID);
	c->uid = get32(a, GPUMEM_A_CLIENT_UID);
	c->device = get32(a, GPUMEM_A_CLIENT_DEVICE);
	c->dead = a[GPUMEM_A_CLIENT_DEAD];
	get_text(a, GPUMEM_A_CLIENT_COMM, c->comm, sizeof(c->comm));
	for (int i = 0; i < GNL_COUNTERS; i++)
		c->counts[i] = get64(a, GPUMEM_A_CLIENT_OBJECTS + i);
}

static void parse_object(struct nlattr **a, void *element)
{
	struct gnl_object *o = element;

	o->client = get32(a, GPUMEM_A_OBJECT_CLIENT);
	o->id = get32(a, GPUMEM_A_OBJECT_ID);
	o->type = get32(a, GPUMEM_A_OBJECT_TYPE);
	o->flags = get32(a, GPUMEM_A_OBJECT_FLAGS);
	o->kind = get32(a, GPUMEM_A_OBJECT_KIND);
	o->device = get_device(a, GPUMEM_A_OBJECT_DEVICE);
	o->length = get64(a, GPUMEM_A_OBJECT_LENGTH);
	get_text(a, GPUMEM_A_OBJECT_NAME, o->name, sizeof(o->name));
	o->pool = get32(a, GPUMEM_A_OBJECT_POOL);
	o->limit = get64(a, GPUMEM_A_OBJECT_LIMIT);
	o->reserved = get64(a, GPUMEM_A_OBJECT_RESERVED);
	o->reserved_high = get64(a, GPUMEM_A_OBJECT_RESERVED_HIGH);
	o->used = get64(a, GPUMEM_A_OBJECT_CLIENT_USED);
	o->used_high = get64(a, GPUMEM_A_OBJECT_CLIENT_USED_HIGH);
	o->chunks = get64(a, GPUMEM_A_OBJECT_CHUNKS);
	o->imports = get64(a, GPUMEM_A_OBJECT_IMPORTS);
	o->cached = get64(a, GPUMEM_A_OBJECT_CACHED);
	o->resident = get64(a, GPUMEM_A_OBJECT_RESIDENT);
	o->faults = get64(a, GPUMEM_A_OBJECT_FAULTS);
	o->evictions = get64(a, GPUMEM_A_OBJECT_EVICTIONS);
	o->thrash = get64(a, GPUMEM_A_OBJECT_THRASH);
	o->moved_in = get64(a, GPUMEM_A_OBJECT_MOVED_IN);
	o->moved_out = get64(a, GPUMEM_A_OBJECT_MOVED_OUT);
}

static void parse_refusal(struct nlattr **a, void *element)
{
	struct gnl_refusal *r = element;

	r->limit = get32(a, GPUMEM_A_REFUSAL_LIMIT);
	r->device = get_device(a, GPUMEM_A_REFUSAL_DEVICE);
	r->client = get32(a, GPUMEM_A_REFUSAL_CLIENT);
	r->pid = get32(a, GPUMEM_A_REFUSAL_PID);
	r->uid = get32(a, GPUMEM_A_REFUSAL_UID);
	get_text(a, GPUMEM_A_REFUSAL_COMM, r->comm, sizeof(r->comm));
	r->asked = get64(a, GPUMEM_A_REFUSAL_ASKED);
	r->bounded = a[GPUMEM_A_REFUSAL_BOUND];
	r->used = get64(a, GPUMEM_A_REFUSAL_USED);
	r->bound = get64(a, GPUMEM_A_REFUSAL_BOUND);
	r->missed = get32(a, GPUMEM_A_REFUSAL_MISSED);
	r->pool = get32(a, GPUMEM_A_REFUSAL_POOL);
}

static int add(struct nl_msg *msg, void *arg)
{
	struct nlattr *attrs[64] = { NULL };
	struct array *array = arg;

	if (genlmsg_parse(nlmsg_hdr(msg), 0, attrs, array->max, NULL)) {
		array->failed = true;
		return NL_SKIP;
	}
	if (array->n == array->room) {
		size_t room = array->room ? array->room * 2 : 16;
		void *data = realloc(array->data, room * array->size);

		if (!data) {
			array->failed = true;
			return NL_SKIP;
		}
		array->data = data;
		array->room = room;
	}
	memset((char *)array->data + array->n * array->size, 0, array->size);
	array->parse(attrs, (char *)array->data + array->n++ * array->size);
	return NL_OK;
}

/*
 * Send a request and store the answers in @array.  If @attr is not 0, the request has it with
 * @value.
 */
static int ask(struct gnl *nl, int cmd, int flags, int attr, __u32 value, struct array *array)
{
	struct nl_msg *msg = nlmsg_alloc();
	int ret;

	array->n = 0;
	array->failed = false;
	if (!msg)
		return -NLE_NOMEM;
	if (!genlmsg_put(msg, NL_AUTO_PORT, NL_AUTO_SEQ, nl->family, 0, flags, cmd,
			 GPUMEM_FAMILY_VERSION) || (attr && nla_put_u32(msg, attr, value))) {
		nlmsg_free(msg);
		return -NLE_NOMEM;
	}
	nl_socket_modify_cb(nl->sock, NL_CB_VALID, NL_CB_CUSTOM, add, array);
	ret = nl_send_auto(nl->sock, msg);
	nlmsg_free(msg);
	if (ret >= 0)
		ret = nl_recvmsgs_default(nl->sock);
	if (ret >= 0)
		ret = array->failed ? -NLE_NOMEM : 0;
	return ret;
}

static int dump(struct gnl *nl, int cmd, int attr, __u32 value, struct array *array, bool *torn)
{
	int ret = -NLE_DUMP_INTR;

	for (int i = 0; i < TRIES && ret == -NLE_DUMP_INTR; i++)
		ret = ask(nl, cmd, NLM_F_DUMP, attr, value, array);
	if (torn)
		*torn = ret == -NLE_DUMP_INTR;
	if (ret == -NLE_DUMP_INTR && torn)
		ret = 0;
	if (ret) {
		free(array->data);
		array->data = NULL;
		array->n = 0;
	}
	return ret;
}

int gnl_open(struct gnl *nl)
{
	int ret;

	nl->sock = nl_socket_alloc();
	if (!nl->sock)
		return -NLE_NOMEM;
	nl_socket_disable_auto_ack(nl->sock);
	ret = genl_connect(nl->sock);
	if (!ret) {
		nl->family = genl_ctrl_resolve(nl->sock, GPUMEM_FAMILY_NAME);
		ret = nl->family < 0 ? nl->family : 0;
	}
	if (ret)
		gnl_close(nl);
	return ret;
}

void gnl_close(struct gnl *nl)
{
	nl_socket_free(nl->sock);
	nl->sock = NULL;
}

const char *gnl_why(int err)
{
	switch (-err) {
	case NLE_OBJ_NOTFOUND:
		return "the module is not loaded, or is older than this program: modprobe gpumem";
	case NLE_PERM:
	case NLE_NOACCESS:
		return "not permitted: this needs CAP_SYS_ADMIN in the initial user namespace (root)";
	case NLE_DUMP_INTR:
		return "too much came and went meanwhile: try again";
	default:
		return nl_geterror(err);
	}
}

int gnl_devices(struct gnl *nl, struct gnl_device **devices, size_t *n)
{
	struct array array = {
		.size = sizeof(**devices), .parse = parse_device, .max = GPUMEM_A_DEVICE_MAX,
	};
	int ret = dump(nl, GPUMEM_NL_CMD_DEVICE_GET, 0, 0, &array, NULL);

	*devices = array.data;
	*n = array.n;
	return ret;
}

int gnl_host(struct gnl *nl, struct gnl_host *host)
{
	struct array array = {
		.size = sizeof(*host), .parse = parse_host, .max = GPUMEM_A_HOST_MAX,
	};
	int ret = ask(nl, GPUMEM_NL_CMD_HOST_GET, 0, 0, 0, &array);

	if (!ret && array.n != 1)
		ret = -NLE_MSG_TOOSHORT;
	if (!ret)
		*host = *(struct gnl_host *)array.data;
	free(array.data);
	return ret;
}

int gnl_clients(struct gnl *nl, struct gnl_client **clients, size_t *n, bool *torn)
{
	struct array array = {
		.size = sizeof(**clients), .parse = parse_client, .max = GPUMEM_A_CLIENT_MAX,
	};
	int ret = dump(nl, GPUMEM_NL_CMD_CLIENT_GET, 0, 0, &array, torn);

	*clients = array.data;
	*n = array.n;
	return ret;
}

int gnl_objects(struct gnl *nl, __u32 client, struct gnl_object **objects, size_t *n, bool *torn)
{
	struct array array = {
		.size = sizeof(**objects), .parse = parse_object, .max = GPUMEM_A_OBJECT_MAX,
	};
	int ret = dump(nl, GPUMEM_NL_CMD_OBJECT_GET, client ? GPUMEM_A_OBJECT_CLIENT : 0, client,
		       &array, torn);

	*objects = array.data;
	*n = array.n;
	return ret;
}

int gnl_listen(struct gnl *nl)
{
	int group = genl_ctrl_resolve_grp(nl->sock, GPUMEM_FAMILY_NAME, GPUMEM_MCGRP_LIMITS);

	if (group < 0)
		return group;
	nl_socket_disable_seq_check(nl->sock);
	return nl_socket_add_membership(nl->sock, group);
}

struct hearing {
	bool (*heard)(const struct gnl_refusal *refusal, void *arg);
	void *arg;
	bool enough;
};

static int hear(struct nl_msg *msg, void *arg)
{
	struct nlattr *attrs[GPUMEM_A_REFUSAL_MAX + 1] = { NULL };
	struct genlmsghdr *genl = nlmsg_data(nlmsg_hdr(msg));
	struct hearing *hearing = arg;
	struct gnl_refusal refusal = { 0 };

	if (genl->cmd != GPUMEM_NL_CMD_REFUSAL_NTF ||
	    genlmsg_parse(nlmsg_hdr(msg), 0, attrs, GPUMEM_A_REFUSAL_MAX, NULL))
		return NL_SKIP;
	parse_refusal(attrs, &refusal);
	if (!hearing->heard(&refusal, hearing->arg)) {
		hearing->enough = true;
		return NL_STOP;
	}
	return NL_OK;
}

int gnl_hear(struct gnl *nl, bool (*heard)(const struct gnl_refusal *refusal, void *arg), void *arg)
{
	struct hearing hearing = { .heard = heard, .arg = arg };
	int ret = 0;

	nl_socket_modify_cb(nl->sock, NL_CB_VALID, NL_CB_CUSTOM, hear, &hearing);
	while (!hearing.enough && ret >= 0)
		ret = nl_recvmsgs_default(nl->sock);
	return ret < 0 ? ret : 0;
}

const char *gnl_counter_name(unsigned int i)
{
#define COUNTER(counter, text)	[GPUMEM_A_CLIENT_##counter - GPUMEM_A_CLIENT_OBJECTS] = text
	static const char *const names[GNL_COUNTERS] = {
		COUNTER(OBJECTS, "objects"),
		COUNTER(BOS, "bos"),
		COUNTER(BO_BYTES, "bo-bytes"),
		COUNTER(VIEWS, "views"),
		COUNTER(VIEW_BYTES, "view-bytes"),
		COUNTER(VM_BYTES, "vm-bytes"),
		COUNTER(EXPORTS, "exports"),
		COUNTER(EXPORT_BYTES, "export-bytes"),
		COUNTER(TOKENS, "tokens"),
		COUNTER(STREAMS, "streams"),
		COUNTER(JOBS, "jobs"),
		COUNTER(COPY_BYTES, "copy-bytes"),
		COUNTER(FILL_BYTES, "fill-bytes"),
		COUNTER(DOORBELLS, "doorbells"),
		COUNTER(PINS, "pins"),
		COUNTER(PIN_BYTES, "pin-bytes"),
		COUNTER(HOST, "host"),
		COUNTER(HOST_BYTES, "host-bytes"),
		COUNTER(POOLS, "pools"),
		COUNTER(POOL_RESERVED, "pool-reserved"),
		COUNTER(POOL_IMPORTS, "pool-imports"),
		COUNTER(IMPORTS, "imports"),
		COUNTER(IMPORT_BYTES, "import-bytes"),
		COUNTER(POOL_CACHED, "pool-cached"),
		COUNTER(MAPPINGS, "mappings"),
		COUNTER(RING_BYTES, "ring-bytes"),
		COUNTER(MANAGED, "managed"),
		COUNTER(MANAGED_RESIDENT, "managed-resident"),
		COUNTER(MANAGED_FAULTS, "managed-faults"),
		COUNTER(MANAGED_EVICTIONS, "managed-evictions"),
		COUNTER(MANAGED_IN, "managed-in"),
		COUNTER(MANAGED_OUT, "managed-out"),
		COUNTER(MANAGED_HELD, "managed-held"),
		COUNTER(MANAGED_THRASH, "managed-thrash"),
		COUNTER(MANAGED_MOVED, "managed-moved"),
		COUNTER(MANAGED_STAYED, "managed-stayed"),
		COUNTER(MANAGED_DUPLICATED, "managed-duplicated"),
		COUNTER(MANAGED_DUPLICATIONS, "managed-duplications"),
		COUNTER(MANAGED_COLLAPSES, "managed-collapses"),
		COUNTER(ENGINE_NS, "engine-ns"),
	};
#undef COUNTER

	return names[i];
}

const char *gnl_limit_name(__u32 limit)
{
	static const char *const names[] = {
		[GPUMEM_LIMIT_DEVICE] = "the device's memory",
		[GPUMEM_LIMIT_HOST] = "the system's memory",
		[GPUMEM_LIMIT_PINNED] = "the user's pin_limit",
		[GPUMEM_LIMIT_MEMLOCK] = "RLIMIT_MEMLOCK",
		[GPUMEM_LIMIT_MEMCG] = "a memory cgroup",
		[GPUMEM_LIMIT_SYSTEM] = "the system",
		[GPUMEM_LIMIT_OBJECTS] = "objects of a client",
		[GPUMEM_LIMIT_STREAMS] = "streams of a client",
		[GPUMEM_LIMIT_POOL] = "the pool's limit",
		[GPUMEM_LIMIT_PINNED_ALL] = "pin_total of all users",
		[GPUMEM_LIMIT_MAPPINGS] = "the user's map_limit",
		[GPUMEM_LIMIT_RINGS] = "the user's ring_limit",
		[GPUMEM_LIMIT_RINGS_ALL] = "ring_total of all users",
		[GPUMEM_LIMIT_DMEM] = "a dmem cgroup",
	};

	return limit < sizeof(names) / sizeof(*names) && names[limit] ? names[limit] : "?";
}

const char *gnl_type_name(const struct gnl_object *object)
{
	switch (object->type) {
	case GPUMEM_OBJECT_TYPE_BO:
		switch (object->kind) {
		case GPUMEM_BO_DEVICE:
			return "device memory";
		case GPUMEM_BO_VIEW:
			return "view";
		case GPUMEM_BO_PINNED:
			return "registration";
		case GPUMEM_BO_HOST:
			return "host memory";
		case GPUMEM_BO_FOREIGN:
			return "foreign memory";
		case GPUMEM_BO_MANAGED:
			return "managed memory";
		}
		return "buffer object";
	case GPUMEM_OBJECT_TYPE_TOKEN:
		return "token";
	case GPUMEM_OBJECT_TYPE_VM:
		return "address space";
	case GPUMEM_OBJECT_TYPE_STREAM:
		return "stream";
	case GPUMEM_OBJECT_TYPE_TIMELINE:
		return "timeline";
	case GPUMEM_OBJECT_TYPE_TIMELINE_REF:
		return "timeline ref";
	case GPUMEM_OBJECT_TYPE_EVENT:
		return "event";
	case GPUMEM_OBJECT_TYPE_POOL:
		return "pool";
	case GPUMEM_OBJECT_TYPE_POOL_REF:
		return "pool import";
	}
	return "?";
}
