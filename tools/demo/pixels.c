// SPDX-License-Identifier: MIT
/* Pixel formats, in the order in which the demo tries them, and their conversion to RGB. */
#include "demo.h"

#include <linux/videodev2.h>

const struct pixel_format pixel_formats[] = {
	{ V4L2_PIX_FMT_XBGR32, "XBGR32", 4, 2, 1, 0 },
	{ V4L2_PIX_FMT_ABGR32, "ABGR32", 4, 2, 1, 0 },
	{ V4L2_PIX_FMT_RGBX32, "RGBX32", 4, 0, 1, 2 },
	{ V4L2_PIX_FMT_RGBA32, "RGBA32", 4, 0, 1, 2 },
	{ V4L2_PIX_FMT_XRGB32, "XRGB32", 4, 1, 2, 3 },
	{ V4L2_PIX_FMT_ARGB32, "ARGB32", 4, 1, 2, 3 },
	{ V4L2_PIX_FMT_YUYV, "YUYV", 2, 0, 0, 0 },
	{ 0 },
};

const struct pixel_format *pixel_format(uint32_t fourcc)
{
	for (const struct pixel_format *f = pixel_formats; f->fourcc; f++)
		if (f->fourcc == fourcc)
			return f;
	return NULL;
}

static uint8_t clamp(int value)
{
	return value < 0 ? 0 : value > 255 ? 255 : value;
}

/* ITU-R BT.601, limited range. */
static void yuv_to_rgb(int y, int u, int v, uint8_t *rgb)
{
	int c = 298 * (y - 16) + 128;

	u -= 128;
	v -= 128;
	rgb[0] = clamp((c + 409 * v) >> 8);
	rgb[1] = clamp((c - 100 * u - 208 * v) >> 8);
	rgb[2] = clamp((c + 516 * u) >> 8);
}

void to_rgb(const struct pixel_format *format, const uint8_t *pixels, size_t stride,
	    unsigned int width, unsigned int height, uint8_t *rgb)
{
	for (unsigned int y = 0; y < height; y++) {
		const uint8_t *p = pixels + y * stride;

		for (unsigned int x = 0; x < width; x++, rgb += 3) {
			if (format->fourcc == V4L2_PIX_FMT_YUYV) {
				const uint8_t *pair = p + x / 2 * 4;

				yuv_to_rgb(pair[x % 2 * 2], pair[1], pair[3], rgb);
			} else {
				rgb[0] = p[x * format->bytes + format->red];
				rgb[1] = p[x * format->bytes + format->green];
				rgb[2] = p[x * format->bytes + format->blue];
			}
		}
	}
}
