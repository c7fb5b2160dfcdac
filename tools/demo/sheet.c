// SPDX-License-Identifier: MIT
/*
 * The contact sheet crosses to another process, which makes a PNG file of it.
 *
 * The first process sends inter-process handles of the sheet and of its event, and the sheet's
 * shape, over a socket.  The second process, started by exec, opens the handles and reports that.
 * It waits until the first process has read the kernel's counters, and for the event: then the
 * engine has copied all cells.  Then it writes the picture and answers with its checksum.
 */
#include "demo.h"

#include <errno.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

struct message {
	CUipcMemHandle handle;
	CUipcEventHandle done;
	uint32_t fourcc, width, height;
	uint64_t pitch;
};

static void send_all(int sock, const void *data, size_t bytes)
{
	if (send(sock, data, bytes, MSG_NOSIGNAL) != (ssize_t)bytes)
		die("the other process is gone; its message tells why");
}

static void receive_all(int sock, void *data, size_t bytes)
{
	if (recv(sock, data, bytes, MSG_WAITALL) != (ssize_t)bytes)
		die("the other process is gone; its message tells why");
}

/*
 * Convert the sheet to RGB bytes in @rgb; returns their checksum.  @colours receives the number of
 * different colours, counted with four bits to a component.
 */
uint32_t sheet_crc(const struct sheet *sheet, const uint8_t *pixels, uint32_t *colours,
		   uint8_t *rgb)
{
	size_t count = (size_t)sheet->width * sheet->height;
	bool seen[4096] = { false };

	to_rgb(sheet->format, pixels, sheet->pitch, sheet->width, sheet->height, rgb);
	*colours = 0;
	for (size_t i = 0; i < count; i++) {
		const uint8_t *p = rgb + 3 * i;
		unsigned int colour = (p[0] >> 4) << 8 | (p[1] >> 4) << 4 | p[2] >> 4;

		*colours += !seen[colour];
		seen[colour] = true;
	}
	return crc32(0, rgb, count * 3);
}

static void write_png(const char *path, const uint8_t *rgb, unsigned int width,
		      unsigned int height)
{
	png_image image = {
		.version = PNG_IMAGE_VERSION,
		.width = width,
		.height = height,
		.format = PNG_FORMAT_RGB,
	};

	if (!png_image_write_to_file(&image, path, 0, rgb, 0, NULL))
		die("%s: %s", path, image.message);
}

/* The second process. */
int sheet_receive(int sock, const char *path)
{
	struct counters counters;
	struct picture answer;
	struct message m;
	struct sheet sheet;
	uint8_t *pixels, *rgb;
	char go = 0;

	receive_all(sock, &m, sizeof(m));
	sheet = (struct sheet){
		.format = pixel_format(m.fourcc),
		.width = m.width,
		.height = m.height,
		.pitch = m.pitch,
	};
	pixels = malloc(sheet.pitch * sheet.height);
	rgb = malloc((size_t)sheet.width * sheet.height * 3);
	if (!sheet.format || !pixels || !rgb)
		die("no memory for the picture: free some");

	CU(cuIpcOpenMemHandle(&sheet.memory, m.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	CU(cuIpcOpenEventHandle(&sheet.done, m.done));
	send_all(sock, &go, 1);
	receive_all(sock, &go, 1);
	CU(cuEventSynchronize(sheet.done));
	CU(cuMemcpyDtoH(pixels, sheet.memory, sheet.pitch * sheet.height));
	CU(cuEventDestroy(sheet.done));
	CU(cuIpcCloseMemHandle(sheet.memory));
	counters_read(&counters);
	answer.copied = counters.copy_bytes;

	answer.crc = sheet_crc(&sheet, pixels, &answer.colours, rgb);
	write_png(path, rgb, sheet.width, sheet.height);
	send_all(sock, &answer, sizeof(answer));
	free(rgb);
	free(pixels);
	return 0;
}

/* The first process: start the second and wait for its answer. */
struct picture sheet_send(const struct sheet *sheet, const char *path)
{
	struct message m = {
		.fourcc = sheet->format->fourcc,
		.width = sheet->width,
		.height = sheet->height,
		.pitch = sheet->pitch,
	};
	struct picture answer;
	int socks[2], status;
	char go = 1;
	pid_t pid;

	CU(cuIpcGetMemHandle(&m.handle, sheet->memory));
	CU(cuIpcGetEventHandle(&m.done, sheet->done));
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socks))
		die("socketpair: %s", strerror(errno));
	pid = fork();
	if (pid < 0)
		die("fork: %s", strerror(errno));
	if (!pid) {
		if (dup2(socks[1], STDIN_FILENO) >= 0)
			execl("/proc/self/exe", NAME, "sheet", path, NULL);
		fprintf(stderr, NAME ": cannot start myself again: %s\n", strerror(errno));
		_exit(127);
	}
	close(socks[1]);
	send_all(socks[0], &m, sizeof(m));
	receive_all(socks[0], &go, 1);
	device_counters("shared:");
	send_all(socks[0], &go, 1);
	receive_all(socks[0], &answer, sizeof(answer));
	close(socks[0]);
	if (waitpid(pid, &status, 0) != pid || status)
		die("FAILED: the second process did not end well");
	return answer;
}
