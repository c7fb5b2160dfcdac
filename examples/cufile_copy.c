// SPDX-License-Identifier: GPL-2.0
/*
 * cuFile: copy a file through device memory, and say which way its bytes went.
 *
 *   cufile_copy FROM TO
 *
 * On a file system that can O_DIRECT the whole blocks go between disk and device memory ("direct"), and the end of the
 * file through the page cache ("staged").  On a tmpfs everything goes through the page cache ("compat").
 *
 * cc cufile_copy.c -o cufile_copy $(pkg-config --cflags --libs cufile)
 */
#include <cufile.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BYTES	(8 << 20)

#define CHECK(good) do {				\
	if (!(good)) {					\
		perror(#good);				\
		exit(1);				\
	}						\
} while (0)

static void cufile(CUfileError_t result, const char *what)
{
	if (result.err == CU_FILE_SUCCESS)
		return;
	fprintf(stderr, "%s: %s\n", what, cufileop_status_error(result.err));
	exit(1);
}

/* A result of cuFileRead() or cuFileWrite(): bytes, -1 with errno, or the negative value of an error of cuFile. */
static size_t bytes(ssize_t result, const char *what)
{
	if (result >= 0)
		return result;
	if (result == -1)
		perror(what);
	else
		fprintf(stderr, "%s: %s\n", what, cufileop_status_error((CUfileOpError)-result));
	exit(1);
}

static CUfileHandle_t file_handle(const char *path, int flags)
{
	CUfileDescr_t descr = { .type = CU_FILE_HANDLE_TYPE_OPAQUE_FD };
	CUfileHandle_t handle;

	/* The library opens the file again, with O_DIRECT if that is possible. */
	descr.handle.fd = open(path, flags, 0600);
	if (descr.handle.fd < 0) {
		perror(path);
		exit(1);
	}
	cufile(cuFileHandleRegister(&handle, &descr), path);
	close(descr.handle.fd);
	return handle;
}

int main(int argc, char **argv)
{
	struct gpumem_file_counters ways;
	CUfileHandle_t from, to;
	CUdeviceptr memory;
	CUcontext ctx;
	off_t at = 0;
	size_t n;

	if (argc != 3) {
		fprintf(stderr, "usage: cufile_copy FROM TO\n");
		return 2;
	}
	CHECK(!cuInit(0));
	CHECK(!cuDevicePrimaryCtxRetain(&ctx, 0));
	CHECK(!cuCtxSetCurrent(ctx));
	CHECK(!cuMemAlloc(&memory, BYTES));
	cufile(cuFileDriverOpen(), "cuFileDriverOpen");
	cufile(cuFileBufRegister((void *)memory, BYTES, 0), "cuFileBufRegister");
	from = file_handle(argv[1], O_RDONLY);
	to = file_handle(argv[2], O_RDWR | O_CREAT | O_TRUNC);

	while ((n = bytes(cuFileRead(from, (void *)memory, BYTES, at, 0), argv[1]))) {
		for (size_t done = 0; done < n; )
			done += bytes(cuFileWrite(to, (void *)memory, n - done, at + done, done), argv[2]);
		at += n;
	}

	cuFileHandleDeregister(from);
	cuFileHandleDeregister(to);
	cufile(cuFileBufDeregister((void *)memory), "cuFileBufDeregister");
	gpumem_file_counters(&ways, sizeof(ways));
	cufile(cuFileDriverClose(), "cuFileDriverClose");
	CHECK(!cuMemFree(memory));
	printf("%lld bytes; read: %llu direct, %llu staged, %llu compat; written: %llu direct, %llu staged, %llu compat\n",
	       (long long)at, (unsigned long long)ways.direct_read, (unsigned long long)ways.staged_read,
	       (unsigned long long)ways.compat_read, (unsigned long long)ways.direct_written,
	       (unsigned long long)ways.staged_written, (unsigned long long)ways.compat_written);
	return 0;
}
