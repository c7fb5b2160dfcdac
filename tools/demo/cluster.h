/* SPDX-License-Identifier: MIT */
/*
 * The demo with two machines: a camera at one of them, the contact sheet at the other.
 *
 * link.c      the RDMA connection of the two machines: writes of frames, and notes
 * send.c      the machine with the camera: frames in device memory, written to the other machine
 * receive.c   the machine with the sheet: its engine, its third process, its checks
 *
 * A note goes behind each frame, and comes back when the frame's slot is free.  A frame's slot has
 * the same number on both machines, so the two slots have one state: the camera has the slot; the
 * frame is on its way; the engine of the receiver copies from it; the camera has the slot again.
 */
#ifndef DEMO_CLUSTER_H
#define DEMO_CLUSTER_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "demo.h"

#define CLUSTER_VERSION	1
#define LINK_PATIENCE	60	/* seconds for an answer of the other machine */

/* What the sender says when it connects. */
struct hello {
	uint32_t version;
	uint32_t frames;		/* for the sheet */
	uint32_t still;			/* frames that follow, and are only compared */
	uint32_t width, height, stride, bytes, fourcc;
};

/* What the receiver answers: where its slots are. */
struct place {
	uint64_t address;
	uint64_t slot_bytes;
	uint32_t key;
};

struct note {
	uint32_t number;		/* of the frame; that of a still frame follows the last */
	uint32_t slot;
	uint32_t bytes;
	uint32_t crc;			/* of the frame; the answer has the receiver's */
	uint32_t cell_crc;		/* of the part that goes to the sheet */
};

/* link.c */
struct link {
	struct rdma_cm_id *listener, *id;
	struct ibv_pd *pd;
	struct ibv_comp_channel *wake;
	struct ibv_cq *cq;
	struct ibv_mr *notes_mr, *slots_mr[SLOTS];
	struct note in[SLOTS], out[SLOTS];
	struct place place;		/* of the receiver's slots */
	uint64_t slots[SLOTS];		/* the addresses of this machine's */
	unsigned int pending;		/* requests that are not complete */
	uint64_t written;		/* bytes of the writes that are complete */
};

void link_listen(struct link *link, const char *address, struct hello *hello);
void link_accept(struct link *link, CUdeviceptr slots, size_t slot_bytes);
void link_connect(struct link *link, const char *address, const struct slot slots[SLOTS],
		  const struct hello *hello);
void link_write(struct link *link, const struct note *note);
void link_answer(struct link *link, const struct note *note);
bool link_take(struct link *link, struct note *note, bool wait);
void link_end(struct link *link);

/* The checksums of a frame that the CPU reads where it is. */
void note_sum(struct note *note, CUdeviceptr frame, const struct camera *cam);

/* send.c, receive.c */
void cluster_send(const char *address, unsigned int frames, uint32_t width, uint32_t height);
void cluster_receive(const char *address, const char *out);

#endif
