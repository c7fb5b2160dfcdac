/* SPDX-License-Identifier: MIT */
/*
 * The demo: a camera that delivers frames into device memory.  cluster.h has the demo with two
 * machines.
 *
 * main.c      options, and the order of the steps
 * camera.c    V4L2: find a camera, set it up, queue and dequeue buffers
 * pixels.c    pixel formats, and their conversion to RGB
 * capture.c   frames in device memory, and crops of them on the contact sheet
 * verify.c    compares frames captured into device memory with a frame copied from system memory
 * sheet.c     the second process, which opens the sheet and writes the picture
 * counters.c  the kernel module's counters
 *
 * Every error ends the program with one line that says what to do.  The kernel then releases
 * everything that the program held.
 */
#ifndef DEMO_H
#define DEMO_H

#include <cuda.h>
#include <gpumem.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define NAME		"gpumem-demo"
#define SLOTS		4	/* frame buffers that camera and engine use in turn */
#define MOST_FRAMES	10000
#define COLUMNS		10	/* of the contact sheet */
#define CELL_WIDTH	160
#define CELL_HEIGHT	90
#define CROP_LEFT	16	/* the test camera writes time and frame number there */
#define CROP_TOP	8

/* main.c */
void start_device(void);
__attribute__((noreturn, format(printf, 1, 2)))
void die(const char *format, ...);
void check_cu(CUresult result, const char *call);
#define CU(call) check_cu(call, #call)

/* pixels.c */
struct pixel_format {
	uint32_t fourcc;
	char name[8];
	uint8_t bytes;			/* of a pixel */
	uint8_t red, green, blue;	/* their offsets in a pixel; all 0 for YUYV */
};

extern const struct pixel_format pixel_formats[];
const struct pixel_format *pixel_format(uint32_t fourcc);
void to_rgb(const struct pixel_format *format, const uint8_t *pixels, size_t stride,
	    unsigned int width, unsigned int height, uint8_t *rgb);

/* camera.c */
struct camera {
	int fd;
	char path[64];
	char driver[17], card[33];
	const struct pixel_format *format;
	uint32_t width, height, stride;
	uint32_t bytes;			/* of a frame's buffer */
	uint32_t memory;		/* V4L2_MEMORY_... of the buffers in use */
	uint32_t buffers;
};

struct frame {
	uint32_t index;			/* of the buffer */
	uint32_t bytes;			/* delivered */
	uint32_t sequence;
};

void camera_open(struct camera *cam, const char *path, uint32_t width, uint32_t height);
bool camera_is_test(const struct camera *cam);
void camera_moving(struct camera *cam);
void camera_still(struct camera *cam);
void camera_menu(struct camera *cam, const char *control, const char *item);
void camera_buffers(struct camera *cam, uint32_t memory, uint32_t count);
void *camera_map(struct camera *cam, uint32_t index, size_t *length);
void camera_queue(struct camera *cam, uint32_t index, int dmabuf, size_t length);
void camera_start(struct camera *cam);
void camera_stop(struct camera *cam);
struct frame camera_dequeue(struct camera *cam);

/* A frame's place in device memory. */
struct slot {
	CUdeviceptr allocation;
	CUdeviceptr memory;		/* the first page boundary in allocation */
	size_t bytes;			/* whole pages */
	int dmabuf;
	CUevent copied;
	bool copying;
	unsigned int order;
};

void slots_make(struct slot slots[SLOTS], const struct camera *cam);
void slots_free(struct slot slots[SLOTS]);

/* capture.c */
struct sheet {
	CUdeviceptr memory;
	const struct pixel_format *format;
	unsigned int width, height;
	size_t pitch;
	CUevent done;			/* behind the last copy to the sheet; other processes wait for it */
};

struct tally {
	unsigned int frames;
	unsigned int lost;		/* frames that the camera could not deliver in time */
	uint64_t delivered;		/* bytes */
	double seconds;			/* from the first frame to the last */
};

struct sheet sheet_make(const struct camera *cam, unsigned int frames);
void sheet_free(struct sheet *sheet);
void sheet_copy_cell(const struct camera *cam, const struct sheet *sheet, struct slot *slot,
		     unsigned int n, CUstream stream);
unsigned int frames_lost(unsigned int first, unsigned int last, unsigned int frames);
void progress(unsigned int done, unsigned int all);
double seconds_now(void);
void capture(struct camera *cam, struct sheet *sheet, unsigned int frames, struct tally *tally);

/* verify.c */
void still_frame(struct camera *cam, void *copy, size_t bytes);
void verify(struct camera *cam);

/* sheet.c */
struct picture {			/* the second process's answer */
	uint32_t crc;			/* of the picture's RGB bytes */
	uint32_t colours;		/* how many different colours, at most 4096 */
	uint64_t copied;		/* bytes, by its engine */
};

uint32_t sheet_crc(const struct sheet *sheet, const uint8_t *pixels, uint32_t *colours,
		   uint8_t *rgb);
struct picture sheet_send(const struct sheet *sheet, const char *path);
int sheet_receive(int sock, const char *path);

/* counters.c */
struct counters {
	uint64_t copy_bytes, fill_bytes, jobs, exports, export_bytes;
};

void counters_read(struct counters *c);
void device_counters(const char *when);

#endif
