/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A block device whose server is a process of the test: the kernel's driver ublk hands each request to it by io_uring.
 * The server keeps the device's bytes in memory. With @device_memory that is memory of a CUDA device, and so are the
 * buffers between which the driver copies.
 *
 * The server is a child of the caller, which must not have called cuInit() yet. It ends when the device is stopped.
 * The driver's control commands are longer than an ordinary entry of a ring: control_ring() makes a ring for them.
 */
#ifndef GPUMEM_SELFTESTS_UBLK_SERVER_H
#define GPUMEM_SELFTESTS_UBLK_SERVER_H

#include <liburing.h>
#include <linux/ublk_cmd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "cuda_case_util.h"

#define UBLK_BYTES	(64 * MIB)
#define UBLK_DEPTH	32
#define UBLK_REQUEST	(256 * KIB)		/* of one request, at most */
#define UBLK_LINE	512			/* a sector */

/* The commands as ioctl numbers, which every kernel accepts. */
#define UBLK_CONTROL(number)	_IOWR('u', number, struct ublksrv_ctrl_cmd)
#define UBLK_IO(number)		_IOWR('u', number, struct ublksrv_io_cmd)

struct ublk {
	int control;			/* /dev/ublk-control */
	struct io_uring ring;		/* for control commands */
	unsigned int id;
	pid_t server;
	char path[32];			/* of the block device */
};

static inline int ublk_command(struct ublk *u, unsigned int number, void *arg, size_t len, __u64 data, bool wait)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
	struct ublksrv_ctrl_cmd *cmd = (void *)sqe->cmd;
	struct io_uring_cqe *cqe;
	int result;

	io_uring_prep_rw(IORING_OP_URING_CMD, sqe, u->control, NULL, 0, 0);
	sqe->cmd_op = UBLK_CONTROL(number);
	*cmd = (struct ublksrv_ctrl_cmd) {
		.dev_id = u->id, .queue_id = -1, .addr = (uintptr_t)arg, .len = len, .data = { data },
	};
	if (!wait)
		return io_uring_submit(&u->ring) == 1 ? 0 : -EIO;
	if (io_uring_submit_and_wait(&u->ring, 1) != 1 || io_uring_wait_cqe(&u->ring, &cqe))
		return -EIO;
	result = cqe->res;
	io_uring_cqe_seen(&u->ring, cqe);
	return result;
}

/* Have the driver fetch the next request for a place, and take the result of the last one. */
static inline void ublk_fetch(struct io_uring *ring, int device, unsigned int tag, bool commit, int result, void *buf)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	struct ublksrv_io_cmd *cmd = (void *)sqe->cmd;

	io_uring_prep_rw(IORING_OP_URING_CMD, sqe, device, NULL, 0, 0);
	sqe->cmd_op = commit ? UBLK_IO(UBLK_IO_COMMIT_AND_FETCH_REQ) : UBLK_IO(UBLK_IO_FETCH_REQ);
	sqe->user_data = tag;
	*cmd = (struct ublksrv_io_cmd) { .tag = tag, .result = result, .addr = (uintptr_t)buf };
}

static inline int ublk_serve_one(const struct ublksrv_io_desc *request, unsigned char *disk, unsigned char *buf)
{
	size_t at = request->start_sector * UBLK_LINE, n = (size_t)request->nr_sectors * UBLK_LINE;

	switch (ublksrv_get_op(request)) {
	case UBLK_IO_OP_FLUSH:
		return 0;
	case UBLK_IO_OP_READ:
	case UBLK_IO_OP_WRITE:
		break;
	default:
		return -EOPNOTSUPP;
	}
	if (n > UBLK_REQUEST || at > UBLK_BYTES || n > UBLK_BYTES - at)
		return -EIO;
	if (ublksrv_get_op(request) == UBLK_IO_OP_READ)
		memcpy(buf, disk + at, n);
	else
		memcpy(disk + at, buf, n);
	return n;
}

/* The server's main(). Its exit status is 0 if the device was stopped. */
static inline int ublk_serve(struct ublk *u, bool device_memory)
{
	size_t descs = (UBLK_DEPTH * sizeof(struct ublksrv_io_desc) + page_size - 1) & -page_size;
	const struct ublksrv_io_desc *desc;
	unsigned char *disk, *bufs;
	struct io_uring ring;
	char path[32];
	int device;

	if (device_memory) {
		CUdeviceptr ptr[2];
		CUcontext ctx;

		if (cuda_start(&ctx) || cuMemAlloc(&ptr[0], UBLK_BYTES) ||
		    cuMemAlloc(&ptr[1], UBLK_DEPTH * UBLK_REQUEST))
			return 1;
		disk = (void *)ptr[0];
		bufs = (void *)ptr[1];
	} else {
		disk = aligned_alloc(page_size, UBLK_BYTES);
		bufs = aligned_alloc(page_size, UBLK_DEPTH * UBLK_REQUEST);
	}
	snprintf(path, sizeof(path), "/dev/ublkc%u", u->id);
	device = open(path, O_RDWR | O_CLOEXEC);
	if (!disk || !bufs || device < 0 || io_uring_queue_init(UBLK_DEPTH, &ring, 0))
		return 2;
	desc = mmap(NULL, descs, PROT_READ, MAP_SHARED | MAP_POPULATE, device, UBLKSRV_CMD_BUF_OFFSET);
	if (desc == MAP_FAILED)
		return 3;
	for (unsigned int i = 0; i < UBLK_DEPTH; i++)
		ublk_fetch(&ring, device, i, false, 0, bufs + i * UBLK_REQUEST);
	/* Starting the device reads its partition table, so this thread must not wait for it. */
	if (io_uring_submit(&ring) != UBLK_DEPTH || ublk_command(u, UBLK_CMD_START_DEV, NULL, 0, getpid(), false))
		return 4;
	for (;;) {
		struct io_uring_cqe *cqe;
		unsigned int tag;
		int result;

		if (io_uring_wait_cqe(&ring, &cqe))
			continue;
		tag = cqe->user_data;
		result = cqe->res;
		io_uring_cqe_seen(&ring, cqe);
		if (result == UBLK_IO_RES_ABORT)
			return 0;
		if (result != UBLK_IO_RES_OK)
			return 5;
		result = ublk_serve_one(&desc[tag], disk, bufs + tag * UBLK_REQUEST);
		ublk_fetch(&ring, device, tag, true, result, bufs + tag * UBLK_REQUEST);
		if (io_uring_submit(&ring) != 1)
			return 6;
	}
}

static inline int ublk_control(struct ublk *u)
{
	struct io_uring_params params = { .flags = IORING_SETUP_SQE128 };

	return io_uring_queue_init_params(4, &u->ring, &params);
}

/* Make the device, and wait until it exists. 0, -ENODEV if the kernel has no such driver, or another error. */
static inline int ublk_start(struct ublk *u, bool device_memory)
{
	struct ublksrv_ctrl_dev_info info = {
		.nr_hw_queues = 1, .queue_depth = UBLK_DEPTH, .max_io_buf_bytes = UBLK_REQUEST, .dev_id = -1,
	};
	struct ublk_params params = {
		.len = sizeof(params), .types = UBLK_PARAM_TYPE_BASIC,
		.basic = {
			.logical_bs_shift = 9, .physical_bs_shift = 12, .io_opt_shift = 12, .io_min_shift = 9,
			.max_sectors = UBLK_REQUEST / UBLK_LINE, .dev_sectors = UBLK_BYTES / UBLK_LINE,
		},
	};
	int error;

	if (system("modprobe -q ublk_drv"))
		return -ENODEV;
	*u = (struct ublk) { .control = open("/dev/ublk-control", O_RDWR | O_CLOEXEC), .id = -1 };
	if (u->control < 0)
		return -ENODEV;
	error = ublk_control(u);
	if (!error)
		error = ublk_command(u, UBLK_CMD_ADD_DEV, &info, sizeof(info), 0, true);
	if (error)
		return error;
	u->id = info.dev_id;
	error = ublk_command(u, UBLK_CMD_SET_PARAMS, &params, sizeof(params), 0, true);
	if (error)
		return error;
	snprintf(u->path, sizeof(u->path), "/dev/ublkb%u", u->id);
	u->server = fork();
	if (!u->server) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* A ring belongs to the process that made it. */
		_exit(ublk_control(u) ? 7 : ublk_serve(u, device_memory));
	}
	for (int i = 0; i < 3000; i++) {
		int fd = open(u->path, O_RDONLY | O_CLOEXEC);

		if (fd >= 0)
			return close(fd);
		if (waitpid(u->server, &error, WNOHANG))
			return -ECHILD;
		usleep(10000);
	}
	return -ETIMEDOUT;
}

/* Remove the device; 0 if the server ended well. */
static inline int ublk_stop(struct ublk *u)
{
	int error = ublk_command(u, UBLK_CMD_STOP_DEV, NULL, 0, 0, true), status = 0;

	if (waitpid(u->server, &status, 0) != u->server || status)
		error = error ?: -ECHILD;
	error = ublk_command(u, UBLK_CMD_DEL_DEV, NULL, 0, 0, true) ?: error;
	io_uring_queue_exit(&u->ring);
	close(u->control);
	return error;
}

#endif
