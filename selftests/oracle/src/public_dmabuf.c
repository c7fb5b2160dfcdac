// SPDX-License-Identifier: GPL-2.0
/*
 * Cases of ranges that cuMemGetHandleForAddressRange() takes: over several allocations of a block of 2 MiB, over
 * several blocks, and of memory that is freed.
 *
 * A row of outcomes has one character for each range: '0' for a DMA-buf of the range's size, 'L' for one of another
 * size, '1' for CUDA_ERROR_INVALID_VALUE, 'x' for another error.
 */
#include "oracle.h"

#define PAGE ((size_t)4096)
#define BLOCK MiB(2)

static CUresult range_fd(int *fd, CUdeviceptr p, size_t n)
{
	*fd = -1;
	return cuMemGetHandleForAddressRange(fd, p, n, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
}

static char range(CUdeviceptr p, size_t n)
{
	int fd;
	CUresult r = range_fd(&fd, p, n);

	if (r)
		return r == CUDA_ERROR_INVALID_VALUE ? '1' : 'x';
	char c = lseek(fd, 0, SEEK_END) == (off_t)n ? '0' : 'L';
	close(fd);
	return c;
}

/* Ranges that begin at page @from and end before the pages behind it, up to page @to. */
static void row(const char *tag, CUdeviceptr base, int from, int to)
{
	char s[128];
	int n = 0;

	for (int e = from + 1; e <= to; e++)
		s[n++] = range(base + from * PAGE, (e - from) * PAGE);
	s[n] = 0;
	emit(F("%s_from_page_%d", tag, from), "%s", s);
}

static void rows(const char *tag, CUdeviceptr base, int n, const int *from, int to)
{
	for (int i = 0; i < n; i++)
		row(tag, base, from[i], to);
	emit(F("%s_block", tag), "%c and a page %c", range(base, BLOCK), range(base, BLOCK + PAGE));
}

#define ROWS(tag, base, to, ...) do { static const int from__[] = { __VA_ARGS__ };       \
		rows(tag, base, sizeof(from__) / sizeof(from__[0]), from__, to); } while (0)

GROUP(dmabuf_range)
{
	init_ctx();
	CUdeviceptr a = dalloc(512), b = dalloc(65536), e = dalloc(512), q = a & ~(BLOCK - 1), x[12];
	emit("layout", "a=%s b=%s e=%s", prel(a, q), prel(b, q), prel(e, q));
	ROWS("all", q, 24, 0, 1, 15, 16, 17, 18);
	emit("last_page", "%c", range(q + BLOCK - PAGE, PAGE));
	emit("from_page_1_to_the_end", "%c and a page %c", range(q + PAGE, BLOCK - PAGE), range(q + PAGE, BLOCK));
	emit("ends_within_a_page", "%c", range(q, 66048));
	emit("begins_within_a_page", "%c", range(b, 65536));
	cuMemFree(a);
	ROWS("first_freed", q, 24, 0, 1, 15, 16, 17);
	a = dalloc(512);
	cuMemFree(b);
	ROWS("second_freed", q, 24, 0, 1, 2, 15, 16, 17);
	cuMemFree(a);
	ROWS("last_lives", q, 24, 0, 1, 15, 16, 17);
	cuMemFree(e);
	emit("all_freed", "%c%c%c", range(q, PAGE), range(q, 2 * PAGE), range(q, BLOCK));
	/* Allocations of two pages. */
	for (int i = 0; i < 12; i++)
		x[i] = dalloc(8192);
	q = x[0];
	static const int gone[] = { 0, 2, 3, 7, 10 };
	for (int i = 0; i < 5; i++)
		cuMemFree(x[gone[i]]);
	ROWS("two_pages", q, 32, 0, 1, 2, 3, 4, 5, 7, 8, 13, 14, 15, 20, 22, 23, 24);
	for (int i = 0; i < 12; i++)
		cuMemFree(x[i]);
	/* Allocations that do not begin with a page. */
	for (int i = 0; i < 9; i++)
		x[i] = dalloc(5120);
	q = x[0];
	ROWS("odd", q, 18, 0, 1, 3, 10, 11, 12);
	static const int odd_gone[] = { 1, 4, 5, 7 };
	for (int i = 0; i < 4; i++)
		cuMemFree(x[odd_gone[i]]);
	ROWS("odd_freed", q, 18, 0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12);
}

static int by_address(const void *a, const void *b)
{
	CUdeviceptr x = *(const CUdeviceptr *)a, y = *(const CUdeviceptr *)b;

	return x < y ? -1 : x > y;
}

/* Free all of @n allocations but @keep that follow each other @step bytes apart. 0: there are not so many. */
static CUdeviceptr neighbours(CUdeviceptr *p, int n, int keep, size_t step)
{
	qsort(p, n, sizeof(*p), by_address);
	for (int i = 0; i + keep <= n; i++) {
		if (p[i + keep - 1] - p[i] != (keep - 1) * step)
			continue;
		for (int j = 0; j < n; j++)
			if (j < i || j >= i + keep)
				cuMemFree(p[j]);
		return p[i];
	}
	return 0;
}

/* Allocations with blocks of their own. */
GROUP(dmabuf_blocks)
{
	init_ctx();
	CUdeviceptr p[10], q;
	for (int i = 0; i < 10; i++)
		p[i] = dalloc(MiB(3));
	REQNZ(q = neighbours(p, 10, 3, MiB(4)));
	emit("sizes", "page=%c 3M=%c 4M=%c", range(q, PAGE), range(q, MiB(3)), range(q, MiB(4)));
	emit("sub_range", "%c%c%c", range(q + MiB(1), MiB(2)), range(q + MiB(1), MiB(3)), range(q + MiB(3) - PAGE, PAGE));
	emit("over_the_end", "%c", range(q + MiB(3) - PAGE, 2 * PAGE));
	emit("behind_the_end", "%c%c%c", range(q + MiB(3), PAGE), range(q + MiB(3), MiB(1)), range(q + MiB(4) - PAGE, PAGE));
	emit("into_the_next", "page=%c half=%c all=%c", range(q, MiB(4) + PAGE), range(q + MiB(1), MiB(4)), range(q, MiB(8)));
	emit("behind_the_end_and_the_next", "%c%c%c", range(q + MiB(4) - PAGE, 2 * PAGE), range(q + MiB(4) - PAGE, MiB(3) + PAGE),
	     range(q + MiB(3), MiB(5)));
	emit("all_three", "%c and a page %c", range(q, MiB(12)), range(q, MiB(12) + PAGE));
	emit("before_the_first", "%c%c", range(q - PAGE, PAGE), range(q - PAGE, MiB(4) + PAGE));
	int fd, ok = !range_fd(&fd, q, MiB(12));
	cuMemFree(q + MiB(4));
	emit("second_freed", "4M=%c page=%c 8M=%c 12M=%c", range(q, MiB(4)), range(q, MiB(4) + PAGE), range(q, MiB(8)), range(q, MiB(12)));
	emit("size_after_free", "%s", ok ? F("%lld", (long long)lseek(fd, 0, SEEK_END)) : "none");
	if (ok)
		close(fd);
}

/* Blocks that several allocations share. */
GROUP(dmabuf_shared_blocks)
{
	init_ctx();
	CUdeviceptr p[160], first[8], q = 0;
	int n = 0;
	for (int i = 0; i < 160; i++)
		p[i] = dalloc(65536);
	for (int i = 0; i < 160 && n < 8; i++)
		if (!(p[i] & (BLOCK - 1)))
			first[n++] = p[i];
	qsort(first, n, sizeof(*first), by_address);
	for (int i = 0; i + 1 < n && !q; i++)
		if (first[i + 1] == first[i] + BLOCK)
			q = first[i];
	REQNZ(q);
	emit("both", "%c", range(q, 2 * BLOCK));
	emit("across", "pages=%c pieces=%c", range(q + BLOCK - PAGE, 2 * PAGE), range(q + BLOCK - 65536, 131072));
	/* The second piece alone is left in the first of the two blocks. */
	for (int i = 0; i < 160; i++)
		if (p[i] >= q && p[i] < q + BLOCK && p[i] != q + 65536)
			cuMemFree(p[i]);
	emit("one_piece", "%c less a page %c", range(q, 131072), range(q, 131072 - PAGE));
	emit("one_piece_to_next", "%c%c%c", range(q, BLOCK + 65536), range(q + 65536, BLOCK), range(q, 2 * BLOCK));
	emit("free_to_next", "%c%c%c", range(q + 131072, PAGE), range(q + 131072, BLOCK - 65536), range(q + 131072, 2 * BLOCK - 131072));
}

/* A mapping beside an allocation. */
GROUP(dmabuf_mapped)
{
	CUmemAllocationProp pr = { .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location.type = CU_MEM_LOCATION_TYPE_DEVICE };
	CUmemGenericAllocationHandle h;
	init_ctx();
	CUdeviceptr p[10], q = 0, r = 0;
	for (int i = 0; i < 10; i++)
		p[i] = dalloc(MiB(4));
	REQNZ(q = neighbours(p, 10, 3, MiB(4)));
	cuMemFree(q + MiB(4));
	REQ(cuMemCreate(&h, MiB(2), &pr, 0));
	REQ(cuMemAddressReserve(&r, MiB(4), 0, q + MiB(4), 0));
	REQNZ(r == q + MiB(4));
	REQ(cuMemMap(r, MiB(2), 0, h, 0));
	emit("into_mapping", "%c%c%c", range(q + MiB(4) - PAGE, 2 * PAGE), range(q, MiB(6)), range(q, MiB(6) + PAGE));
	REQ(cuMemMap(r + MiB(2), MiB(2), 0, h, 0));
	emit("into_alloc", "%c%c%c", range(r + MiB(4) - PAGE, 2 * PAGE), range(r, MiB(8)), range(r + MiB(2), MiB(3)));
	emit("over_all", "%c", range(q, MiB(12)));
}

GROUP(dmabuf_pool)
{
	init_ctx();
	CUdeviceptr w[8];
	CUstream s;
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < 8; i++)
		REQ(cuMemAllocAsync(&w[i], 65536, s));
	REQ(cuStreamSynchronize(s));
	emit("first", "page=%c whole=%c", range(w[0], PAGE), range(w[0], 65536));
	emit("first_and_second", "%c", range(w[0], 131072));
	emit("all", "%c", range(w[0], 8 * 65536));
	emit("within_first", "%c", range(w[0] + PAGE, PAGE));
	emit("second", "page=%c whole=%c", range(w[1], PAGE), range(w[1], 65536));
	REQ(cuMemFreeAsync(w[0], s));
	REQ(cuStreamSynchronize(s));
	emit("first_freed", "page=%c whole=%c", range(w[0], PAGE), range(w[0], 65536));
	emit("first_freed_and_second", "%c", range(w[0], 131072));
}

PEER(dmabuf_imported)
{
	CUipcMemHandle h[2];
	CUdeviceptr p = 0;
	if (xrecv(sock, h, sizeof(h)))
		return;
	init_ctx();
	REQ(cuIpcOpenMemHandle(&p, h[0], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	emit("large", "page=%c whole=%c 4M=%c", range(p, PAGE), range(p, MiB(3)), range(p, MiB(4)));
	REQ(cuIpcOpenMemHandle(&p, h[1], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	emit("small", "page=%c whole=%c", range(p, PAGE), range(p, 65536));
}
GROUP(dmabuf_imported)
{
	init_ctx();
	peer_t p;
	CUipcMemHandle h[2];
	REQ(cuIpcGetMemHandle(&h[0], dalloc(MiB(3))));
	REQ(cuIpcGetMemHandle(&h[1], dalloc(65536)));
	REQNZ(peer_start(&p, "dmabuf_imported") == 0);
	xsend(p.fd, h, sizeof(h));
	emit("peer_exit", "%d", peer_wait(&p));
}

static long long used_since(size_t before)
{
	size_t now = 0, total;

	cuMemGetInfo(&now, &total);
	return (long long)before - (long long)now;
}

GROUPALONE(dmabuf_kept)
{
	init_ctx();
	CUdeviceptr p, again, k, y, z;
	size_t before, total;
	unsigned char *data = halloc(65536);
	int fd;
	/* The first copies may take memory that the driver keeps. */
	p = dalloc(65536);
	REQ(cuMemcpyHtoD(p, data, 65536));
	REQ(cuMemcpyDtoH(data, p, 65536));
	cuMemFree(p);
	REQ(cuMemGetInfo(&before, &total));
	p = dalloc(MiB(64));
	emit("allocated", "%lld", used_since(before));
	REQ(range_fd(&fd, p, PAGE));
	cuMemFree(p);
	emit("freed_with_a_page_exported", "%lld", used_since(before));
	again = dalloc(MiB(64));
	emit("allocated_again", "%lld", used_since(before));
	cuMemFree(again);
	close(fd);
	emit("closed", "%lld", used_since(before));
	/* One of three allocations of a block is freed and allocated again, then all are freed. */
	REQ(cuMemGetInfo(&before, &total));
	k = dalloc(512), y = dalloc(65536), z = dalloc(65536);
	emit("three", "%lld", used_since(before));
	memset(data, 0x77, 65536);
	REQ(cuMemcpyHtoD(y, data, 65536));
	REQ(range_fd(&fd, k & ~(PAGE - 1), 65536));
	cuMemFree(y);
	again = dalloc(65536);
	emit("same_place.impl", "%d", again == y);
	REQ(cuMemcpyDtoH(data, again, 65536));
	emit("data.impl", "%s", allbyte(data, 65536, 0) ? "zero" : allbyte(data, 65536, 0x77) ? "old" : "other");
	emit("one_freed", "size=%lld", (long long)lseek(fd, 0, SEEK_END));
	cuMemFree(again), cuMemFree(z), cuMemFree(k);
	emit("all_freed", "size=%lld used=%lld", (long long)lseek(fd, 0, SEEK_END), used_since(before));
	k = dalloc(512), y = dalloc(65536);
	emit("three_again", "%lld", used_since(before));
	close(fd);
	emit("three_closed", "%lld", used_since(before));
}
