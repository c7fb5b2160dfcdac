// SPDX-License-Identifier: MIT
/* The demo's options, and the order of its steps; see demo.h. */
#include "cluster.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char usage[] =
"usage: " NAME " [OPTION...]\n"
"\n"
"Capture frames of a camera straight into device memory, collect a part of each on a contact\n"
"sheet, hand the sheet to a second process, and have that write DIR/contact-sheet.png.  Exits\n"
"with status 0 if every check along the way held.\n"
"\n"
"  -n, --frames N   how many; default 60\n"
"  -s, --size WxH   of a frame; default 1280x720\n"
"  -o, --out DIR    default: out\n"
"      --send ADDRESS     write the frames by RDMA to the machine that receives there\n"
"      --receive ADDRESS  receive frames at this address; the picture is DIR/cluster-sheet.png\n"
"  -h, --help\n"
"  -V, --version\n"
"\n"
"DEMO_VIDEO=/dev/videoN names the camera; without it, the test camera of module vivid is used.\n";

void die(const char *format, ...)
{
	va_list ap;

	fflush(stdout);
	fputs(NAME ": ", stderr);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

void check_cu(CUresult result, const char *call)
{
	const char *name = "unknown error";
	int n = strcspn(call, "(");

	if (result == CUDA_SUCCESS)
		return;
	cuGetErrorName(result, &name);
	if (result == CUDA_ERROR_OUT_OF_MEMORY)
		die("%.*s: %s: the device is too small, load gpumem with vram=256M", n, call, name);
	die("%.*s: %s", n, call, name);
}

void start_device(void)
{
	CUdevice device;
	CUcontext ctx;

	CUresult r = cuInit(0);

	if (r != CUDA_SUCCESS && gpumem_init_error()) {
		/* The text says what to do. */
		fprintf(stderr, "%s\n", gpumem_init_error());
		exit(1);
	}
	check_cu(r, "cuInit(0)");
	CU(cuDeviceGet(&device, 0));
	CU(cuDevicePrimaryCtxRetain(&ctx, device));
	CU(cuCtxSetCurrent(ctx));
}

static unsigned long number(const char *text, const char *option, unsigned long low,
			    unsigned long high, char **end)
{
	unsigned long n;
	char *stop;

	errno = 0;
	n = strtoul(text, &stop, 10);
	if (stop == text || errno || n < low || n > high || (!end && *stop) || *text == '-')
		die("%s %s: a number from %lu to %lu is wanted", option, text, low, high);
	if (end)
		*end = stop;
	return n;
}

static void demo(unsigned int frames, unsigned int width, unsigned int height, const char *out)
{
	struct camera cam = { .fd = -1 };
	uint32_t crc, colours;
	struct picture answer;
	struct sheet sheet;
	struct tally tally;
	uint8_t *pixels, *rgb;
	char path[4096];
	size_t bytes;

	start_device();
	camera_open(&cam, getenv("DEMO_VIDEO"), width, height);
	if (mkdir(out, 0777) && errno != EEXIST)
		die("%s: %s: name a directory with --out", out, strerror(errno));
	snprintf(path, sizeof(path), "%s/contact-sheet.png", out);
	unlink(path);

	printf("camera:    %s (%s), %ux%u %s\n", cam.path, cam.driver, cam.width, cam.height,
	       cam.format->name);
	fflush(stdout);
	if (camera_is_test(&cam))
		camera_moving(&cam);
	sheet = sheet_make(&cam, frames);
	capture(&cam, &sheet, frames, &tally);
	answer = sheet_send(&sheet, path);

	bytes = sheet.pitch * sheet.height;
	pixels = malloc(bytes);
	rgb = malloc((size_t)sheet.width * sheet.height * 3);
	if (!pixels || !rgb)
		die("no memory for the picture: free some");
	CU(cuMemcpyDtoH(pixels, sheet.memory, bytes));
	crc = sheet_crc(&sheet, pixels, &colours, rgb);
	free(rgb);
	free(pixels);
	sheet_free(&sheet);
	printf("picture:   %s, %ux%u, written by a second process, RGB bytes' CRC-32 %08x\n", path,
	       sheet.width, sheet.height, answer.crc);
	if (answer.crc != crc)
		die("FAILED: the second process saw other bytes (%08x) than this one (%08x)",
		    answer.crc, crc);
	if (colours < 4)
		die("FAILED: the picture is blank; does the camera see anything?");
	if (camera_is_test(&cam))
		verify(&cam);
	else
		printf("compared:  nothing: %s is no test camera, frames differ\n", cam.path);
	close(cam.fd);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "frames", required_argument, NULL, 'n' },
		{ "size", required_argument, NULL, 's' },
		{ "out", required_argument, NULL, 'o' },
		{ "send", required_argument, NULL, 'S' },
		{ "receive", required_argument, NULL, 'R' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ 0 },
	};
	unsigned int frames = 60, width = 1280, height = 720;
	const char *out = "out", *send = NULL, *receive = NULL;
	char *end;
	int c;

	if (argc == 3 && !strcmp(argv[1], "sheet")) {
		start_device();
		return sheet_receive(STDIN_FILENO, argv[2]);
	}
	while ((c = getopt_long(argc, argv, "n:s:o:hV", options, NULL)) != -1) {
		switch (c) {
		case 'n':
			frames = number(optarg, "--frames", 1, MOST_FRAMES, NULL);
			break;
		case 's':
			width = number(optarg, "--size", CROP_LEFT + CELL_WIDTH, 16384, &end);
			if (*end != 'x')
				die("--size %s: WIDTHxHEIGHT is wanted", optarg);
			height = number(end + 1, "--size", CROP_TOP + CELL_HEIGHT, 16384, NULL);
			break;
		case 'o':
			out = optarg;
			break;
		case 'S':
			send = optarg;
			break;
		case 'R':
			receive = optarg;
			break;
		case 'h':
			fputs(usage, stdout);
			return 0;
		case 'V':
			printf(NAME " %s, libgpumem %s\n", GPUMEM_VERSION, gpumem_version());
			return 0;
		default:
			fputs("Try " NAME " --help.\n", stderr);
			return 2;
		}
	}
	if (optind < argc)
		die("%s: no such argument; try --help", argv[optind]);
	/* Then the kernel counts each byte that the library moves. */
	if (send || receive)
		setenv("GPUMEM_INLINE", "0", 1);
	if (send)
		cluster_send(send, frames, width, height);
	else if (receive)
		cluster_receive(receive, out);
	else
		demo(frames, width, height, out);
	return 0;
}
