// SPDX-License-Identifier: MIT
/*
 * The machine with the camera; see cluster.h.
 *
 * The camera writes each frame into a slot in device memory.  The RDMA device writes it from there
 * to the receiver.  The answer to its note gives the slot back to the camera, and has the checksum
 * that the receiver computed.  The engine does nothing.
 */
#include "cluster.h"

#include <linux/videodev2.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

struct sender {
	struct camera *cam;
	struct link *link;
	struct slot slots[SLOTS];
	struct note sent[SLOTS];
	bool away[SLOTS];
	unsigned int agreed;		/* frames with the same checksum on both machines */
};

/* The CPU reads the frame where it is: nothing copies it. */
void note_sum(struct note *note, CUdeviceptr frame, const struct camera *cam)
{
	const uint8_t *p = (const uint8_t *)(uintptr_t)frame;

	note->crc = crc32(0, p, note->bytes);
	note->cell_crc = 0;
	p += CROP_TOP * cam->stride + CROP_LEFT * cam->format->bytes;
	for (unsigned int y = 0; y < CELL_HEIGHT; y++, p += cam->stride)
		note->cell_crc = crc32(note->cell_crc, p, CELL_WIDTH * cam->format->bytes);
}

/* Take one answer; false if none came, and this is not to @wait. */
static bool take_answer(struct sender *s, bool wait)
{
	const struct note *sent;
	struct note answer;

	if (!link_take(s->link, &answer, wait))
		return false;
	sent = &s->sent[answer.slot];
	if (!s->away[answer.slot] || answer.number != sent->number)
		die("FAILED: an answer to frame %u, which was not sent", answer.number);
	if (answer.crc != sent->crc)
		die("FAILED: frame %u has checksum %08x here, and %08x where it arrived",
		    sent->number, sent->crc, answer.crc);
	s->agreed++;
	s->away[answer.slot] = false;
	return true;
}

static unsigned int slots_away(const struct sender *s)
{
	unsigned int away = 0;

	for (unsigned int i = 0; i < SLOTS; i++)
		away += s->away[i];
	return away;
}

static void queue(struct sender *s, unsigned int i)
{
	camera_queue(s->cam, i, s->slots[i].dmabuf, s->slots[i].bytes);
}

/* Queue the slots that came back to the camera, which must not have none. */
static void requeue(struct sender *s)
{
	bool was[SLOTS];

	for (unsigned int i = 0; i < SLOTS; i++)
		was[i] = s->away[i];
	while (take_answer(s, slots_away(s) == SLOTS))
		;
	for (unsigned int i = 0; i < SLOTS; i++) {
		if (was[i] && !s->away[i])
			queue(s, i);
	}
}

/* Send the camera's next frame as number @n. */
static struct frame send_next(struct sender *s, unsigned int n)
{
	struct frame f = camera_dequeue(s->cam);
	struct note *note = &s->sent[f.index];

	if (f.bytes != (size_t)s->cam->stride * s->cam->height)
		die("FAILED: the camera delivered an incomplete frame");
	*note = (struct note){ .number = n, .slot = f.index, .bytes = f.bytes };
	note_sum(note, s->slots[f.index].memory, s->cam);
	s->away[f.index] = true;
	link_write(s->link, note);
	return f;
}

static void start(struct sender *s)
{
	camera_buffers(s->cam, V4L2_MEMORY_DMABUF, SLOTS);
	for (unsigned int i = 0; i < SLOTS; i++)
		queue(s, i);
	camera_start(s->cam);
}

static void stop(struct sender *s)
{
	while (slots_away(s))
		take_answer(s, true);
	camera_stop(s->cam);
	camera_buffers(s->cam, 0, 0);
}

static void send_all(struct sender *s, unsigned int frames, struct tally *tally)
{
	uint32_t first = 0;
	double begin = 0;

	*tally = (struct tally){ 0 };
	start(s);
	while (tally->frames < frames) {
		struct frame f = send_next(s, tally->frames);

		if (!tally->frames) {
			begin = seconds_now();
			first = f.sequence;
		}
		tally->seconds = seconds_now() - begin;
		tally->delivered += f.bytes;
		progress(++tally->frames, frames);
		tally->lost = frames_lost(first, f.sequence, tally->frames);
		requeue(s);
	}
	stop(s);
}

/*
 * One more frame, of a still picture, goes to the receiver.  The checksum that the receiver
 * computes must be that of a frame in the camera's own memory, which is not gpumem's.
 */
static void send_still(struct sender *s, unsigned int number)
{
	size_t bytes = (size_t)s->cam->stride * s->cam->height;
	void *copy = malloc(bytes);
	uint32_t crc;

	if (!copy)
		die("no memory for a frame: free some");
	camera_still(s->cam);
	start(s);
	crc = s->sent[send_next(s, number).index].crc;
	stop(s);
	still_frame(s->cam, copy, bytes);
	if (crc32(0, copy, bytes) != crc)
		die("FAILED: the still frame that arrived differs from one through system memory");
	free(copy);
	printf("compared:  a frame that arrived equals one that came through system memory\n");
}

void cluster_send(const char *address, unsigned int frames, uint32_t width, uint32_t height)
{
	struct camera cam = { .fd = -1 };
	struct link link;
	struct sender s = { .cam = &cam, .link = &link };
	struct counters counters;
	struct tally tally;
	struct hello hello;

	start_device();
	camera_open(&cam, getenv("DEMO_VIDEO"), width, height);
	printf("camera:    %s (%s), %ux%u %s\n", cam.path, cam.driver, cam.width, cam.height,
	       cam.format->name);
	fflush(stdout);
	if (camera_is_test(&cam))
		camera_moving(&cam);
	slots_make(s.slots, &cam);
	hello = (struct hello){
		.version = CLUSTER_VERSION, .frames = frames,
		.still = camera_is_test(&cam), .width = cam.width, .height = cam.height,
		.stride = cam.stride, .bytes = cam.bytes, .fourcc = cam.format->fourcc,
	};
	link_connect(&link, address, s.slots, &hello);
	send_all(&s, frames, &tally);
	device_counters("during:");
	printf("camera:    wrote %llu bytes, %u frames, all into device memory, ",
	       (unsigned long long)tally.delivered, tally.frames);
	printf("%.1f per second, %u lost\n",
	       tally.seconds > 0 ? (frames - 1) / tally.seconds : 0.0, tally.lost);
	if (camera_is_test(&cam))
		send_still(&s, frames);
	else
		printf("compared:  nothing: %s is no test camera, frames differ\n", cam.path);
	link_end(&link);
	/* The counters are those of the whole life of this process. */
	counters_read(&counters);
	printf("rdma:      wrote %llu bytes from here to device memory at %s\n",
	       (unsigned long long)link.written, address);
	printf("checksums: %u of %u frames have the same on both machines\n", s.agreed,
	       frames + camera_is_test(&cam));
	printf("engine:    copied %llu bytes and filled %llu, in %llu jobs\n",
	       (unsigned long long)counters.copy_bytes, (unsigned long long)counters.fill_bytes,
	       (unsigned long long)counters.jobs);
	if (counters.copy_bytes || counters.fill_bytes || counters.jobs)
		die("FAILED: the engine of the camera's machine has nothing to do");
	if (counters.exports != SLOTS)
		die("FAILED: the kernel counts %llu exported buffers, not %u",
		    (unsigned long long)counters.exports, SLOTS);
	if (link.written != (uint64_t)s.agreed * cam.stride * cam.height)
		die("FAILED: RDMA wrote other bytes than the frames");
	slots_free(s.slots);
	close(cam.fd);
}
