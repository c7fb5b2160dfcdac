// SPDX-License-Identifier: GPL-2.0
/*
 * Device memory as a TCP socket's memory: a DMA-buf of gpumem is bound to the receive queue of a
 * network device, payload arrives in it without a copy, and the program frees it by tokens.
 *
 * No device that QEMU emulates has such queues: the test needs the pair of devices that nic.c makes.
 */
#include "kselftest_harness.h"
#include "cuda/cuda_util.h"
#include "net/nic_util.h"

#define BUFFER	(2 * MIB)

FIXTURE(devmem)
{
	struct nl_sock *sock;
	CUcontext ctx;
	CUdeviceptr p;
	int far_ns, fd, id, listening;
};

FIXTURE_SETUP(devmem)
{
	if (!nic_present())
		SKIP(return, "no device " NEAR);
	self->far_ns = nic_part();
	ASSERT_LE(0, self->far_ns);
	ASSERT_EQ(0, nic_split(NEAR));
	cuda_begin(_metadata, &self->ctx);
	ASSERT_CU(cuMemAlloc(&self->p, BUFFER));
	ASSERT_CU(cuMemsetD8(self->p, 0xee, BUFFER));
	ASSERT_CU(cuMemGetHandleForAddressRange(&self->fd, self->p, BUFFER,
						CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	self->id = nic_bind(NIC_CMD_BIND_RX, NEAR, self->fd, &self->sock);
	ASSERT_LT(0, self->id);
	self->listening = nic_listen(NEAR_ADDRESS);
	ASSERT_LE(0, self->listening);
}

FIXTURE_TEARDOWN_PARENT(devmem)
{
	EXPECT_TRUE(!nic_present() || nic_back());
	EXPECT_TRUE(dev_quiet(10));
}

struct received {
	size_t total;		/* bytes of the stream so far */
	size_t device;		/* of these, in device memory */
	unsigned int wrong;	/* fragments with other content than was sent */
};

static bool give_back(int sock, __u32 token)
{
	struct nic_dmabuf_token t = { token, 1 };

	return setsockopt(sock, SOL_SOCKET, NIC_SO_DEVMEM_DONTNEED, &t, sizeof(t)) == 1;
}

/*
 * Take what one recvmsg() of @sock gives, and compare it.  Fragments are copied from device memory at
 * @p by the engine.  Returns what recvmsg() did; -EPROTO if a message makes no sense.
 */
static ssize_t take(int sock, CUdeviceptr p, int id, struct received *r)
{
	char control[CMSG_SPACE(sizeof(struct nic_dmabuf_cmsg)) * 64];
	static unsigned char plain[64 * KIB], seen[64 * KIB];
	struct iovec iov = { plain, sizeof(plain) };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	ssize_t ret = recvmsg(sock, &msg, NIC_MSG_SOCK_DEVMEM);
	struct nic_dmabuf_cmsg frag;
	size_t linear = 0;
	struct cmsghdr *c;

	if (ret <= 0)
		return ret < 0 ? -errno : 0;
	for (c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
		if (c->cmsg_level != SOL_SOCKET)
			return -EPROTO;
		memcpy(&frag, CMSG_DATA(c), sizeof(frag));
		if (c->cmsg_type == NIC_SO_DEVMEM_LINEAR) {
			r->wrong += !nic_pattern(plain + linear, r->total, frag.frag_size);
			linear += frag.frag_size;
		} else if (c->cmsg_type == NIC_SO_DEVMEM_DMABUF && frag.dmabuf_id == (__u32)id &&
			   frag.frag_size <= sizeof(seen) &&
			   frag.frag_offset + frag.frag_size <= BUFFER) {
			if (cuMemcpyDtoH(seen, p + frag.frag_offset, frag.frag_size))
				return -EIO;
			r->wrong += !nic_pattern(seen, r->total, frag.frag_size);
			r->device += frag.frag_size;
			if (!give_back(sock, frag.frag_token))
				return -EBADMSG;
		} else {
			return -EPROTO;
		}
		r->total += frag.frag_size;
	}
	return ret;
}

TEST_F(devmem, payload_arrives_in_device_memory)
{
	struct nic_sender s = { self->far_ns, 2 * BUFFER };
	struct received r = { 0 };
	ssize_t ret;
	pid_t child;
	int sock;

	child = start_child(nic_send, &s);
	ASSERT_LT(0, child);
	sock = accept(self->listening, NULL, NULL);
	ASSERT_LE(0, sock);
	while ((ret = take(sock, self->p, self->id, &r)) > 0)
		;
	EXPECT_EQ(0, ret);
	EXPECT_EQ(s.n, r.total);
	EXPECT_EQ(0, r.wrong);
	/* Only headers go elsewhere. */
	EXPECT_EQ(s.n, r.device);
	EXPECT_EQ(0, end_child(child));
	EXPECT_EQ(0, close(sock));
	EXPECT_CU(cuMemFree(self->p));
}

/* Memory that is freed while a queue has it stays with the queue, and nobody else gets it. */
TEST_F(devmem, free_while_bound)
{
	struct nic_sender s = { self->far_ns, BUFFER };
	unsigned char *seen = malloc(BUFFER);
	CUdeviceptr other[8];
	size_t total = 0;
	unsigned int i;
	ssize_t ret;
	pid_t child;
	int sock;

	ASSERT_NE(NULL, seen);
	ASSERT_CU(cuMemFree(self->p));
	for (i = 0; i < 8; i++) {
		ASSERT_CU(cuMemAlloc(&other[i], BUFFER));
		ASSERT_CU(cuMemsetD8(other[i], 0x11, BUFFER));
	}
	child = start_child(nic_send, &s);
	ASSERT_LT(0, child);
	sock = accept(self->listening, NULL, NULL);
	ASSERT_LE(0, sock);
	/* Keep the tokens: the socket frees what it still has when it is closed. */
	while (total < BUFFER / 4) {
		char control[CMSG_SPACE(sizeof(struct nic_dmabuf_cmsg)) * 64];
		struct iovec iov = { seen, 64 * KIB };
		struct msghdr msg = {
			.msg_iov = &iov, .msg_iovlen = 1,
			.msg_control = control, .msg_controllen = sizeof(control),
		};

		ret = recvmsg(sock, &msg, NIC_MSG_SOCK_DEVMEM);
		ASSERT_LT(0, ret);
		total += ret;
	}
	for (i = 0; i < 8; i++) {
		EXPECT_CU(cuMemcpyDtoH(seen, other[i], BUFFER));
		EXPECT_TRUE(all_are(seen, 0x11, BUFFER));
		EXPECT_CU(cuMemFree(other[i]));
	}
	EXPECT_EQ(0, close(sock));
	kill_child(child);
	free(seen);
}

struct reader {
	int ns, ready;
	size_t n;
};

/* In a child: listen in the far namespace, and compare what comes with the pattern. */
static int read_pattern(void *arg)
{
	struct reader *r = arg;
	static unsigned char buf[64 * KIB];
	int listening, sock;
	size_t total = 0;
	ssize_t ret;

	if (!nic_enter(r->ns))
		return 1;
	listening = nic_listen(FAR_ADDRESS);
	if (listening < 0 || !tell(r->ready))
		return 2;
	sock = accept(listening, NULL, NULL);
	while ((ret = read(sock, buf, sizeof(buf))) > 0) {
		if (!nic_pattern(buf, total, ret))
			return 3;
		total += ret;
	}
	return ret || total != r->n ? 4 : 0;
}

/* Send @n bytes at @offset of the DMA-buf @id; what sendmsg() did. */
static ssize_t send_device(int sock, __u32 id, size_t offset, size_t n)
{
	char control[CMSG_SPACE(sizeof(id))] = { 0 };
	struct iovec iov = { (void *)offset, n };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = NIC_SO_DEVMEM_DMABUF;
	c->cmsg_len = CMSG_LEN(sizeof(id));
	memcpy(CMSG_DATA(c), &id, sizeof(id));
	return sendmsg(sock, &msg, MSG_ZEROCOPY | MSG_NOSIGNAL);
}

FIXTURE(alone)
{
	int far_ns;
};

FIXTURE_SETUP(alone)
{
	if (!nic_present())
		SKIP(return, "no device " NEAR);
	ASSERT_TRUE(dev_quiet(10));
	self->far_ns = nic_part();
	ASSERT_LE(0, self->far_ns);
	ASSERT_EQ(0, nic_split(NEAR));
}

FIXTURE_TEARDOWN_PARENT(alone)
{
	EXPECT_TRUE(!nic_present() || nic_back());
	EXPECT_TRUE(dev_quiet(10));
}

TEST_F(alone, send_from_device_memory)
{
	struct reader r = { .ns = self->far_ns, .n = BUFFER };
	unsigned char *pattern = malloc(BUFFER);
	struct nl_sock *nl;
	int p[2], fd, id, sock, one = 1;
	CUdeviceptr mem;
	CUcontext ctx;
	size_t i, done;
	pid_t child;

	ASSERT_NE(NULL, pattern);
	for (i = 0; i < BUFFER; i++)
		pattern[i] = nic_byte(i);
	ASSERT_CU(cuda_start(&ctx));
	ASSERT_CU(cuMemAlloc(&mem, BUFFER));
	ASSERT_CU(cuMemcpyHtoD(mem, pattern, BUFFER));
	ASSERT_CU(cuMemGetHandleForAddressRange(&fd, mem, BUFFER,
						CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	id = nic_bind(NIC_CMD_BIND_TX, NEAR, fd, &nl);
	if (id == -NLE_OPNOTSUPP)
		SKIP(return, "this kernel's sockets send no device memory");
	ASSERT_LT(0, id);
	ASSERT_EQ(0, pipe(p));
	r.ready = p[1];
	child = start_child(read_pattern, &r);
	ASSERT_LT(0, child);
	ASSERT_TRUE(hear(p[0]));
	sock = nic_connect(FAR_ADDRESS);
	ASSERT_LE(0, sock);
	ASSERT_EQ(0, setsockopt(sock, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one)));
	for (done = 0; done < BUFFER; done += i) {
		i = send_device(sock, id, done, BUFFER - done);
		ASSERT_LT(0, (ssize_t)i);
	}
	EXPECT_EQ(0, close(sock));
	EXPECT_EQ(0, end_child(child));
	nl_socket_free(nl);
	EXPECT_EQ(0, close(fd));
	EXPECT_CU(cuMemFree(mem));
	free(pattern);
}

static int receive_until_killed(void *arg)
{
	int *pipe_end = arg, sock, ready = pipe_end[1];
	struct received r = { 0 };
	struct nl_sock *nl;
	CUdeviceptr p;
	CUcontext ctx;
	int fd, id;

	if (cuda_start(&ctx) || cuMemAlloc(&p, BUFFER) ||
	    cuMemGetHandleForAddressRange(&fd, p, BUFFER, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0))
		return 1;
	id = nic_bind(NIC_CMD_BIND_RX, NEAR, fd, &nl);
	if (id <= 0)
		return 2;
	sock = nic_listen(NEAR_ADDRESS);
	if (sock < 0 || !tell(ready))
		return 3;
	sock = accept(sock, NULL, NULL);
	while (sock >= 0 && r.total < BUFFER && take(sock, p, id, &r) > 0)
		;
	tell(ready);
	for (;;)
		pause();
}

/* SIGKILL in the middle of a stream leaves nothing: no binding, no memory, no client. */
TEST_F(alone, receiver_is_killed)
{
	struct nic_sender s = { self->far_ns, 16 * BUFFER };
	pid_t receiver, sender;
	int round, p[2];

	for (round = 0; round < 2; round++) {
		ASSERT_EQ(0, pipe(p));
		receiver = start_child(receive_until_killed, p);
		ASSERT_LT(0, receiver);
		close(p[1]);
		ASSERT_TRUE(hear(p[0]));
		sender = start_child(nic_send, &s);
		ASSERT_LT(0, sender);
		ASSERT_TRUE(hear(p[0]));
		EXPECT_EQ(-SIGKILL, kill_child(receiver));
		kill_child(sender);
		close(p[0]);
		EXPECT_TRUE(dev_quiet(10));
	}
}

TEST_HARNESS_MAIN
