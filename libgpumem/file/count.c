// SPDX-License-Identifier: MIT
/*
 * Counters: the statistics of the cuFile API, and the ways that bytes went.
 *
 * gpumem_file_counters() counts always. The statistics of the API count from cuFileStatsStart() to cuFileStatsStop(),
 * at the level of cuFileSetStatsLevel(): 0 nothing, 1 totals, 2 sizes, 3 devices. All requests count for the first
 * device. Counters are atomic; the functions take no lock.
 */
#include <stddef.h>
#include <string.h>

#include "file/file.h"

static struct gpumem_file_counters ways;
static CUfileOpCounter_t counters[COUNTERS];
static struct totals {
	uint64_t bytes, sum_us, requests, errors, sizes[32], batch_bytes;
} totals[2];				/* of reads, of writes */
static uint64_t started, stopped;	/* in us; 0: never */
static int64_t registered;		/* bytes */
static int level;
static bool running;

static uint64_t load(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

static void add(uint64_t *counter, uint64_t n)
{
	__atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

static bool counting(int least)
{
	return __atomic_load_n(&running, __ATOMIC_RELAXED) && __atomic_load_n(&level, __ATOMIC_RELAXED) >= least;
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000ull + time.tv_nsec / 1000;
}

void count(enum counter counter, bool ok)
{
	if (counting(1))
		add(ok ? &counters[counter].ok : &counters[counter].err, 1);
}

uint64_t count_start(void)
{
	return counting(1) ? now() : 0;
}

void count_request(bool write, ssize_t result, uint64_t start, bool batch)
{
	struct totals *t = &totals[write];
	unsigned int size = 0;

	if (!counting(1))
		return;
	count(write ? COUNT_WRITE : COUNT_READ, result >= 0);
	add(&t->requests, 1);
	if (start)
		add(&t->sum_us, now() - start);
	if (result < 0) {
		add(&t->errors, 1);
		return;
	}
	add(&t->bytes, result);
	if (batch)
		add(&t->batch_bytes, result);
	while (size < 31 && (size_t)result >> 10 >> size)
		size++;
	if (counting(2))
		add(&t->sizes[size], 1);
}

void count_operation(const struct operation *op, bool ring)
{
	uint64_t *bytes = op->way == WAY_DIRECT ? &ways.direct_read : op->way == WAY_STAGED ? &ways.staged_read :
		&ways.compat_read;

	add(ring ? &ways.ring_requests : &ways.plain_requests, 1);
	if (op->result > 0)
		add(bytes + op->write, op->result);
}

void count_registered(int64_t bytes)
{
	__atomic_fetch_add(&registered, bytes, __ATOMIC_RELAXED);
}

/* ---- public functions */

EXPORT unsigned int gpumem_file_counters(struct gpumem_file_counters *out, unsigned int size)
{
	struct gpumem_file_counters now_;
	const uint64_t *from = (const uint64_t *)&ways;
	uint64_t *to = (uint64_t *)&now_;

	for (size_t i = 0; i < sizeof(now_) / sizeof(*to); i++)
		to[i] = load(&from[i]);
	if (out)
		memcpy(out, &now_, size < sizeof(now_) ? size : sizeof(now_));
	return sizeof(now_);
}

EXPORT CUfileError_t cuFileSetStatsLevel(int wanted)
{
	if (wanted < 0 || wanted > 3)
		return file_result(CU_FILE_INVALID_VALUE);
	__atomic_store_n(&level, wanted, __ATOMIC_RELAXED);
	return file_result(CU_FILE_SUCCESS);
}

EXPORT CUfileError_t cuFileGetStatsLevel(int *out)
{
	if (!out)
		return file_result(CU_FILE_INVALID_VALUE);
	*out = __atomic_load_n(&level, __ATOMIC_RELAXED);
	return file_result(CU_FILE_SUCCESS);
}

EXPORT CUfileError_t cuFileStatsStart(void)
{
	if (driver_forked())
		return file_result(CU_FILE_DRIVER_NOT_INITIALIZED);
	__atomic_store_n(&started, now(), __ATOMIC_RELAXED);
	__atomic_store_n(&running, true, __ATOMIC_RELAXED);
	return file_result(CU_FILE_SUCCESS);
}

EXPORT CUfileError_t cuFileStatsStop(void)
{
	__atomic_store_n(&running, false, __ATOMIC_RELAXED);
	__atomic_store_n(&stopped, now(), __ATOMIC_RELAXED);
	return file_result(CU_FILE_SUCCESS);
}

EXPORT CUfileError_t cuFileStatsReset(void)
{
	for (size_t i = 0; i < COUNTERS; i++) {
		__atomic_store_n(&counters[i].ok, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&counters[i].err, 0, __ATOMIC_RELAXED);
	}
	for (size_t i = 0; i < sizeof(totals) / (sizeof(uint64_t)); i++)
		__atomic_store_n((uint64_t *)totals + i, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&started, now(), __ATOMIC_RELAXED);
	return file_result(CU_FILE_SUCCESS);
}

static uint64_t seconds(void)
{
	uint64_t end = __atomic_load_n(&running, __ATOMIC_RELAXED) ? now() : load(&stopped);
	uint64_t begin = load(&started);

	return end > begin + 1000000 ? (end - begin) / 1000000 : 1;
}

static uint64_t average(const struct totals *t)
{
	uint64_t n = load(&t->requests);

	return n ? load(&t->sum_us) / n : 0;
}

static CUfileOpCounter_t counted(enum counter counter)
{
	return (CUfileOpCounter_t) { .ok = load(&counters[counter].ok), .err = load(&counters[counter].err) };
}

static void fill_basic(CUfileStatsLevel1_t *s)
{
	const struct totals *r = &totals[0], *w = &totals[1];

	memset(s, 0, sizeof(*s));
	s->read_ops = counted(COUNT_READ);
	s->write_ops = counted(COUNT_WRITE);
	s->hdl_register_ops = counted(COUNT_FILE_REGISTER);
	s->hdl_deregister_ops = counted(COUNT_FILE_DEREGISTER);
	s->buf_register_ops = counted(COUNT_BUFFER_REGISTER);
	s->buf_deregister_ops = counted(COUNT_BUFFER_DEREGISTER);
	s->batch_submit_ops = s->batch_iouring_submit_ops = s->batch_total_submit_ops = counted(COUNT_BATCH_SUBMIT);
	s->batch_complete_ops = s->batch_processed_ops = counted(COUNT_BATCH_COMPLETE);
	s->batch_setup_ops = counted(COUNT_BATCH_SETUP);
	s->batch_cancel_ops = counted(COUNT_BATCH_CANCEL);
	s->batch_destroy_ops = counted(COUNT_BATCH_DESTROY);
	s->batch_enqueued_ops = counted(COUNT_BATCH_ENQUEUED);
	s->read_bytes = load(&r->bytes);
	s->write_bytes = load(&w->bytes);
	s->batch_read_bytes = load(&r->batch_bytes);
	s->batch_write_bytes = load(&w->batch_bytes);
	s->read_bw_bytes_per_sec = s->read_bytes / seconds();
	s->write_bw_bytes_per_sec = s->write_bytes / seconds();
	s->batch_read_bw_bytes = s->batch_read_bytes / seconds();
	s->batch_write_bw_bytes = s->batch_write_bytes / seconds();
	s->read_ops_per_sec = load(&r->requests) / seconds();
	s->write_ops_per_sec = load(&w->requests) / seconds();
	s->read_lat_sum_us = load(&r->sum_us);
	s->write_lat_sum_us = load(&w->sum_us);
	s->read_lat_avg_us = average(r);
	s->write_lat_avg_us = average(w);
}

static void fill_detailed(CUfileStatsLevel2_t *s)
{
	fill_basic(&s->basic);
	for (unsigned int i = 0; i < 32; i++) {
		s->read_size_kb_hist[i] = load(&totals[0].sizes[i]);
		s->write_size_kb_hist[i] = load(&totals[1].sizes[i]);
	}
}

/* For the functions below: levels that were not asked for are not answered. */
static CUfileError_t answerable(const void *stats, int least)
{
	return file_result(!stats || __atomic_load_n(&level, __ATOMIC_RELAXED) < least ? CU_FILE_INVALID_VALUE :
			   CU_FILE_SUCCESS);
}

EXPORT CUfileError_t cuFileGetStatsL1(CUfileStatsLevel1_t *stats)
{
	CUfileError_t result = answerable(stats, 1);

	if (!result.err)
		fill_basic(stats);
	return result;
}

EXPORT CUfileError_t cuFileGetStatsL2(CUfileStatsLevel2_t *stats)
{
	CUfileError_t result = answerable(stats, 2);

	if (!result.err)
		fill_detailed(stats);
	return result;
}

EXPORT CUfileError_t cuFileGetStatsL3(CUfileStatsLevel3_t *stats)
{
	CUfileError_t result = answerable(stats, 3);
	CUfilePerGpuStats_t *gpu;
	CUuuid uuid;

	if (result.err)
		return result;
	memset(stats, 0, sizeof(*stats));
	fill_detailed(&stats->detailed);
	stats->num_gpus = 1;
	gpu = &stats->per_gpu_stats[0];
	if (!cuDeviceGetUuid_v2(&uuid, 0))
		memcpy(gpu->uuid, &uuid, sizeof(gpu->uuid));
	gpu->read_bytes = load(&totals[0].bytes);
	gpu->writes_bytes = load(&totals[1].bytes);
	gpu->read_duration_us = load(&totals[0].sum_us);
	gpu->write_duration_us = load(&totals[1].sum_us);
	gpu->n_total_reads = load(&totals[0].requests);
	gpu->n_total_writes = load(&totals[1].requests);
	gpu->n_reads_err = load(&totals[0].errors);
	gpu->n_writes_err = load(&totals[1].errors);
	gpu->reg_bytes = __atomic_load_n(&registered, __ATOMIC_RELAXED);
	return result;
}

/* The device's memory is all within reach of the CPU. */
EXPORT CUfileError_t cuFileGetBARSizeInKB(int gpuIndex, size_t *barSize)
{
	CUfileError_t result = file_result(CU_FILE_INVALID_VALUE);
	size_t bytes;

	if (!barSize)
		return result;
	result.err = driver_need(&result.cu_err);
	if (result.err)
		return result;
	result.cu_err = cuDeviceTotalMem(&bytes, gpuIndex);
	if (result.cu_err) {
		result.err = CU_FILE_CUDA_DRIVER_ERROR;
		return result;
	}
	*barSize = bytes >> 10;
	return result;
}
