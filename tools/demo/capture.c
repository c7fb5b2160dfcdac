// SPDX-License-Identifier: MIT
/*
 * Capture: the camera writes frames into device memory, and the engine copies a part of each to the
 * contact sheet.
 *
 * The states of a slot: the camera has it; the engine copies its frame; the event behind the copy
 * is complete; the camera has it again.  The CPU does not read or write a frame during the capture.
 */
#include "demo.h"

#include <linux/videodev2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void slots_make(struct slot slots[SLOTS], const struct camera *cam)
{
	size_t page = sysconf(_SC_PAGESIZE);

	for (unsigned int i = 0; i < SLOTS; i++) {
		struct slot *s = &slots[i];

		*s = (struct slot){ .bytes = (cam->bytes + page - 1) / page * page };
		/* DMA-bufs begin and end on page boundaries, allocations need not. */
		CU(cuMemAlloc(&s->allocation, s->bytes + page - 1));
		s->memory = (s->allocation + page - 1) / page * page;
		CU(cuMemGetHandleForAddressRange(&s->dmabuf, s->memory, s->bytes,
						 CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
		CU(cuEventCreate(&s->copied, CU_EVENT_DISABLE_TIMING));
	}
}

/* The camera must have given its buffers back. */
void slots_free(struct slot slots[SLOTS])
{
	for (unsigned int i = 0; i < SLOTS; i++) {
		CU(cuEventDestroy(slots[i].copied));
		close(slots[i].dmabuf);
		CU(cuMemFree(slots[i].allocation));
	}
}

struct sheet sheet_make(const struct camera *cam, unsigned int frames)
{
	struct sheet s = {
		.format = cam->format,
		.width = COLUMNS * CELL_WIDTH,
		.height = (frames + COLUMNS - 1) / COLUMNS * CELL_HEIGHT,
		.pitch = COLUMNS * CELL_WIDTH * cam->format->bytes,
	};

	CU(cuMemAlloc(&s.memory, s.pitch * s.height));
	CU(cuMemsetD8(s.memory, 0, s.pitch * s.height));
	CU(cuEventCreate(&s.done, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
	return s;
}

void sheet_free(struct sheet *sheet)
{
	CU(cuEventDestroy(sheet->done));
	CU(cuMemFree(sheet->memory));
}

/* Submit the copy of a part of @slot's frame to the cell of frame number @n on the sheet. */
void sheet_copy_cell(const struct camera *cam, const struct sheet *sheet, struct slot *slot,
		     unsigned int n, CUstream stream)
{
	size_t bytes = cam->format->bytes;
	CUDA_MEMCPY2D copy = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = slot->memory,
		.srcPitch = cam->stride,
		.srcXInBytes = CROP_LEFT * bytes,
		.srcY = CROP_TOP,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = sheet->memory,
		.dstPitch = sheet->pitch,
		.dstXInBytes = n % COLUMNS * CELL_WIDTH * bytes,
		.dstY = n / COLUMNS * CELL_HEIGHT,
		.WidthInBytes = CELL_WIDTH * bytes,
		.Height = CELL_HEIGHT,
	};

	CU(cuMemcpy2DAsync(&copy, stream));
	CU(cuEventRecord(slot->copied, stream));
	slot->copying = true;
	slot->order = n;
}

/*
 * Queue every slot whose copy is done to the camera.  If the camera would otherwise have too few
 * buffers, wait for the oldest copy.
 */
static void requeue(struct camera *cam, struct slot slots[SLOTS])
{
	unsigned int queued = 0;

	for (unsigned int i = 0; i < SLOTS; i++) {
		struct slot *s = &slots[i];
		CUresult r;

		if (s->copying) {
			r = cuEventQuery(s->copied);
			if (r == CUDA_ERROR_NOT_READY)
				continue;
			check_cu(r, "cuEventQuery(s->copied)");
			s->copying = false;
			camera_queue(cam, i, s->dmabuf, s->bytes);
		}
		queued++;
	}
	if (!queued) {
		struct slot *oldest = &slots[0];

		for (unsigned int i = 1; i < SLOTS; i++)
			if (slots[i].order < oldest->order)
				oldest = &slots[i];
		CU(cuEventSynchronize(oldest->copied));
		oldest->copying = false;
		camera_queue(cam, oldest - slots, oldest->dmabuf, oldest->bytes);
	}
}

double seconds_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

/* How many sequence numbers from @first to @last had no frame.  A camera that is late may repeat one. */
unsigned int frames_lost(unsigned int first, unsigned int last, unsigned int frames)
{
	unsigned int numbers = last - first + 1;

	return numbers > frames ? numbers - frames : 0;
}

void progress(unsigned int done, unsigned int all)
{
	const char *term = getenv("TERM");
	bool tty = isatty(STDOUT_FILENO) && term && strcmp(term, "dumb");

	if (done % 10 && done != all)
		return;
	printf("%sframe %u of %u%s", tty ? "\r" : "", done, all, !tty || done == all ? "\n" : "");
	fflush(stdout);
}

void capture(struct camera *cam, struct sheet *sheet, unsigned int frames, struct tally *tally)
{
	struct counters before, after;
	struct slot slots[SLOTS];
	uint32_t first = 0, last = 0;
	double begin = 0, end = 0;
	CUstream stream;
	uint64_t cell = CELL_WIDTH * CELL_HEIGHT * cam->format->bytes;

	CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	slots_make(slots, cam);
	camera_buffers(cam, V4L2_MEMORY_DMABUF, SLOTS);
	for (unsigned int i = 0; i < SLOTS; i++)
		camera_queue(cam, i, slots[i].dmabuf, slots[i].bytes);
	CU(cuCtxSynchronize());
	counters_read(&before);
	camera_start(cam);

	*tally = (struct tally){ 0 };
	while (tally->frames < frames) {
		struct frame f = camera_dequeue(cam);

		end = seconds_now();
		last = f.sequence;
		if (!tally->frames) {
			begin = end;
			first = f.sequence;
		}
		sheet_copy_cell(cam, sheet, &slots[f.index], tally->frames, stream);
		tally->delivered += f.bytes;
		progress(++tally->frames, frames);
		requeue(cam, slots);
	}
	tally->seconds = end - begin;
	tally->lost = frames_lost(first, last, frames);
	CU(cuEventRecord(sheet->done, stream));
	CU(cuStreamSynchronize(stream));
	counters_read(&after);
	device_counters("during:");
	camera_stop(cam);
	camera_buffers(cam, 0, 0);
	slots_free(slots);
	CU(cuStreamDestroy(stream));

	printf("camera:    %u frames of %ux%u %s, %.1f per second, %u lost\n", tally->frames,
	       cam->width, cam->height, cam->format->name,
	       tally->seconds > 0 ? (frames - 1) / tally->seconds : 0.0, tally->lost);
	printf("camera:    wrote %llu bytes, all into device memory (%u DMA-bufs of %llu bytes)\n",
	       (unsigned long long)tally->delivered, SLOTS,
	       (unsigned long long)(before.export_bytes / SLOTS));
	printf("engine:    copied %llu bytes in %llu jobs: ",
	       (unsigned long long)(after.copy_bytes - before.copy_bytes),
	       (unsigned long long)(after.jobs - before.jobs));
	printf("the contact sheet's %u cells of %llu bytes\n", frames, (unsigned long long)cell);
	if (before.exports != SLOTS || after.exports != SLOTS)
		die("FAILED: the kernel counts %llu exported buffers, not %u",
		    (unsigned long long)after.exports, SLOTS);
	if (after.copy_bytes - before.copy_bytes != frames * cell ||
	    after.fill_bytes != before.fill_bytes)
		die("FAILED: the engine moved other bytes than the contact sheet's");
	if (tally->delivered != (uint64_t)frames * cam->stride * cam->height)
		die("FAILED: the camera delivered incomplete frames");
}
