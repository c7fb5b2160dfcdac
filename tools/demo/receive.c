// SPDX-License-Identifier: MIT
/*
 * The machine with the contact sheet; see cluster.h.
 *
 * Frames arrive in slots in device memory without anything that this process does.  For each note
 * the engine copies a part of the frame to the sheet; behind the copy is an event, after which the
 * slot goes back to the sender.  A third process opens the sheet and waits for the event behind the
 * last copy.
 */
#include "cluster.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

struct receiver {
	struct camera cam;		/* the shape of the frames; no camera is here */
	struct link link;
	struct slot slots[SLOTS];
	struct sheet sheet;
	CUdeviceptr allocation;
	CUstream stream;
	uint32_t *cells;		/* the sender's checksums of the sheet's cells */
	unsigned int frames, agreed;
	uint64_t bytes;
};

static void slots_here(struct receiver *r, const struct hello *hello)
{
	size_t page = sysconf(_SC_PAGESIZE), bytes = (hello->bytes + page - 1) / page * page;

	CU(cuMemAlloc(&r->allocation, SLOTS * bytes));
	for (unsigned int i = 0; i < SLOTS; i++) {
		r->slots[i] = (struct slot){
			.memory = r->allocation + i * bytes, .bytes = bytes, .dmabuf = -1,
		};
		CU(cuEventCreate(&r->slots[i].copied, CU_EVENT_DISABLE_TIMING));
	}
	link_accept(&r->link, r->allocation, bytes);
}

static void take_frame(struct receiver *r)
{
	struct note note, mine;
	struct slot *slot;

	link_take(&r->link, &note, true);
	slot = &r->slots[note.slot];
	if (note.bytes != (size_t)r->cam.stride * r->cam.height)
		die("FAILED: an incomplete frame arrived");
	mine = note;
	note_sum(&mine, slot->memory, &r->cam);
	if (mine.crc != note.crc)
		die("FAILED: frame %u had checksum %08x where the camera wrote it, and has %08x here",
		    note.number, note.crc, mine.crc);
	r->agreed++;
	r->bytes += note.bytes;
	if (note.number < r->frames) {
		r->cells[note.number] = note.cell_crc;
		sheet_copy_cell(&r->cam, &r->sheet, slot, note.number, r->stream);
		if (note.number == r->frames - 1)
			CU(cuEventRecord(r->sheet.done, r->stream));
		CU(cuEventSynchronize(slot->copied));
		progress(note.number + 1, r->frames);
	}
	link_answer(&r->link, &mine);
}

/* The CPU reads the sheet where it is, so that the counters stay. */
static const uint8_t *sheet_pixels(const struct sheet *sheet)
{
	return (const uint8_t *)(uintptr_t)sheet->memory;
}

static void check_cells(const struct receiver *r)
{
	size_t bytes = r->cam.format->bytes;

	for (unsigned int n = 0; n < r->frames; n++) {
		const uint8_t *p = sheet_pixels(&r->sheet) + n / COLUMNS * CELL_HEIGHT * r->sheet.pitch +
			n % COLUMNS * CELL_WIDTH * bytes;
		uint32_t crc = 0;

		for (unsigned int y = 0; y < CELL_HEIGHT; y++, p += r->sheet.pitch)
			crc = crc32(crc, p, CELL_WIDTH * bytes);
		if (crc != r->cells[n])
			die("FAILED: cell %u of the sheet is not what the camera wrote", n);
	}
	printf("sheet:     %u of %u cells are what the camera wrote on the other machine\n",
	       r->frames, r->frames);
}

/* The counters are those of the whole life of this process, and of the third one. */
static void check_counters(const struct receiver *r, const struct picture *answer)
{
	uint64_t cells = (uint64_t)r->frames * CELL_WIDTH * CELL_HEIGHT * r->cam.format->bytes;
	uint64_t all = r->sheet.pitch * r->sheet.height;
	struct counters c;

	counters_read(&c);
	printf("engine:    copied %llu bytes: the contact sheet's %u cells; cleared the sheet's %llu\n",
	       (unsigned long long)c.copy_bytes, r->frames, (unsigned long long)c.fill_bytes);
	printf("engine:    copied %llu bytes for the third process: the sheet\n",
	       (unsigned long long)answer->copied);
	if (c.copy_bytes != cells || c.fill_bytes != all || answer->copied != all)
		die("FAILED: the engine moved other bytes than the contact sheet's");
	if (c.exports)
		die("FAILED: the kernel counts %llu exported buffers, not 0",
		    (unsigned long long)c.exports);
}

static void show(struct receiver *r, const char *path)
{
	struct picture answer = sheet_send(&r->sheet, path);
	uint8_t *rgb = malloc((size_t)r->sheet.width * r->sheet.height * 3);
	uint32_t crc, colours;

	if (!rgb)
		die("no memory for the picture: free some");
	crc = sheet_crc(&r->sheet, sheet_pixels(&r->sheet), &colours, rgb);
	free(rgb);
	printf("picture:   %s, %ux%u, written by a third process, RGB bytes' CRC-32 %08x\n", path,
	       r->sheet.width, r->sheet.height, answer.crc);
	if (answer.crc != crc)
		die("FAILED: the third process saw other bytes (%08x) than this one (%08x)",
		    answer.crc, crc);
	if (colours < 4)
		die("FAILED: the picture is blank; does the camera see anything?");
	check_cells(r);
	check_counters(r, &answer);
}

void cluster_receive(const char *address, const char *out)
{
	struct receiver r = { .cam.fd = -1 };
	unsigned int expected;
	struct hello hello;
	double begin, seconds;
	char path[4096];

	start_device();
	if (mkdir(out, 0777) && errno != EEXIST)
		die("%s: %s: name a directory with --out", out, strerror(errno));
	snprintf(path, sizeof(path), "%s/cluster-sheet.png", out);
	unlink(path);
	link_listen(&r.link, address, &hello);
	r.cam.format = pixel_format(hello.fourcc);
	if (!r.cam.format || !hello.frames || hello.frames > MOST_FRAMES ||
	    (uint64_t)hello.stride * hello.height > hello.bytes ||
	    hello.width * r.cam.format->bytes > hello.stride ||
	    hello.width < CROP_LEFT + CELL_WIDTH || hello.height < CROP_TOP + CELL_HEIGHT)
		die("the sender's frames have a shape that this program does not know");
	r.cam.width = hello.width;
	r.cam.height = hello.height;
	r.cam.stride = hello.stride;
	r.frames = hello.frames;
	r.cells = calloc(r.frames, sizeof(*r.cells));
	if (!r.cells)
		die("no memory for checksums: free some");
	CU(cuStreamCreate(&r.stream, CU_STREAM_NON_BLOCKING));
	r.sheet = sheet_make(&r.cam, r.frames);
	slots_here(&r, &hello);

	begin = seconds_now();
	expected = r.frames + hello.still;
	while (r.agreed < expected)
		take_frame(&r);
	seconds = seconds_now() - begin;
	link_end(&r.link);
	printf("rdma:      %llu bytes arrived in device memory, in %.1f s\n",
	       (unsigned long long)r.bytes, seconds);
	printf("checksums: %u of %u frames have the same on both machines\n", r.agreed, expected);
	fflush(stdout);
	show(&r, path);

	for (unsigned int i = 0; i < SLOTS; i++)
		CU(cuEventDestroy(r.slots[i].copied));
	CU(cuStreamDestroy(r.stream));
	CU(cuMemFree(r.allocation));
	sheet_free(&r.sheet);
	free(r.cells);
}
