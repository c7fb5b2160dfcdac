/* SPDX-License-Identifier: MIT */
/*
 * Statistics of the cuFile API, and the function of libcufile.so.0 that NVIDIA's library does not have. Programs
 * include <cufile.h>.
 */
#ifndef GPUMEM_CUFILE_STATS_H
#define GPUMEM_CUFILE_STATS_H

#include <stdint.h>

#define CUFILE_GPU_UUID_LEN	16

typedef struct CUfileOpCounter {
	uint64_t ok;
	uint64_t err;
} CUfileOpCounter_t;

typedef struct CUfileStatsLevel1 {
	CUfileOpCounter_t read_ops;
	CUfileOpCounter_t write_ops;
	CUfileOpCounter_t hdl_register_ops;
	CUfileOpCounter_t hdl_deregister_ops;
	CUfileOpCounter_t buf_register_ops;
	CUfileOpCounter_t buf_deregister_ops;
	uint64_t read_bytes;
	uint64_t write_bytes;
	uint64_t read_bw_bytes_per_sec;
	uint64_t write_bw_bytes_per_sec;
	uint64_t read_lat_avg_us;
	uint64_t write_lat_avg_us;
	uint64_t read_ops_per_sec;
	uint64_t write_ops_per_sec;
	uint64_t read_lat_sum_us;
	uint64_t write_lat_sum_us;
	CUfileOpCounter_t batch_submit_ops;
	CUfileOpCounter_t batch_complete_ops;
	CUfileOpCounter_t batch_setup_ops;
	CUfileOpCounter_t batch_cancel_ops;
	CUfileOpCounter_t batch_destroy_ops;
	CUfileOpCounter_t batch_enqueued_ops;
	CUfileOpCounter_t batch_posix_enqueued_ops;
	CUfileOpCounter_t batch_processed_ops;
	CUfileOpCounter_t batch_posix_processed_ops;
	CUfileOpCounter_t batch_nvfs_submit_ops;
	CUfileOpCounter_t batch_p2p_submit_ops;
	CUfileOpCounter_t batch_aio_submit_ops;
	CUfileOpCounter_t batch_iouring_submit_ops;
	CUfileOpCounter_t batch_mixed_io_submit_ops;
	CUfileOpCounter_t batch_total_submit_ops;
	uint64_t batch_read_bytes;
	uint64_t batch_write_bytes;
	uint64_t batch_read_bw_bytes;
	uint64_t batch_write_bw_bytes;
	uint64_t batch_submit_lat_avg_us;
	uint64_t batch_completion_lat_avg_us;
	uint64_t batch_submit_ops_per_sec;
	uint64_t batch_complete_ops_per_sec;
	uint64_t batch_submit_lat_sum_us;
	uint64_t batch_completion_lat_sum_us;
	uint64_t last_batch_read_bytes;
	uint64_t last_batch_write_bytes;
} CUfileStatsLevel1_t;

typedef struct CUfileStatsLevel2 {
	CUfileStatsLevel1_t basic;
	uint64_t read_size_kb_hist[32];
	uint64_t write_size_kb_hist[32];
} CUfileStatsLevel2_t;

typedef struct CUfilePerGpuStats {
	char uuid[CUFILE_GPU_UUID_LEN];
	uint64_t read_bytes;
	uint64_t read_bw_bytes_per_sec;
	uint64_t read_utilization;
	uint64_t read_duration_us;
	uint64_t n_total_reads;
	uint64_t n_p2p_reads;
	uint64_t n_nvfs_reads;
	uint64_t n_posix_reads;
	uint64_t n_unaligned_reads;
	uint64_t n_dr_reads;
	uint64_t n_sparse_regions;
	uint64_t n_inline_regions;
	uint64_t n_reads_err;
	uint64_t writes_bytes;
	uint64_t write_bw_bytes_per_sec;
	uint64_t write_utilization;
	uint64_t write_duration_us;
	uint64_t n_total_writes;
	uint64_t n_p2p_writes;
	uint64_t n_nvfs_writes;
	uint64_t n_posix_writes;
	uint64_t n_unaligned_writes;
	uint64_t n_dr_writes;
	uint64_t n_writes_err;
	uint64_t n_mmap;
	uint64_t n_mmap_ok;
	uint64_t n_mmap_err;
	uint64_t n_mmap_free;
	uint64_t reg_bytes;
} CUfilePerGpuStats_t;

typedef struct CUfileStatsLevel3 {
	CUfileStatsLevel2_t detailed;
	uint32_t num_gpus;
	CUfilePerGpuStats_t per_gpu_stats[16];
} CUfileStatsLevel3_t;

/*
 * How the bytes of all requests went, since the process started. A direct byte went between the storage and the
 * buffer, without a copy by a CPU. A staged byte belongs to a request on a file with O_DIRECT, and went through the
 * page cache: the edge blocks of a misaligned request, or all of it where the buffer's address does not suit the
 * device. A compat byte belongs to a request in compatibility mode, and went through the page cache.
 */
struct gpumem_file_counters {
	uint64_t direct_read, direct_written;
	uint64_t staged_read, staged_written;
	uint64_t compat_read, compat_written;
	uint64_t ring_requests;		/* operations that io_uring executed */
	uint64_t plain_requests;	/* operations by pread() and pwrite(), because there was no ring */
};

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/**
 * gpumem_file_counters - how the bytes of cuFile requests went
 * @counters: out: the counters; NULL if the caller wants the size only
 * @size: room at @counters in bytes: sizeof(struct gpumem_file_counters)
 *
 * The counters have the bytes of all requests since the process started, by the way that they went. They always count,
 * whatever cuFileSetStatsLevel() says, and closing the driver does not reset them.
 *
 * direct_read and direct_written are bytes that went between the storage and the buffer, without a copy by a CPU.
 * staged_read and staged_written are bytes of requests on a file with O_DIRECT that went through the page cache: the
 * edge blocks of a misaligned request, or all of it where the buffer's address does not suit the device. compat_read
 * and compat_written are bytes of requests in compatibility mode. ring_requests are operations that io_uring executed,
 * plain_requests those by pread() and pwrite(), because there was no ring.
 *
 * A later library may know more counters. It writes as many as there is room for.
 *
 * The function may be called at any time, also while the driver is closed. NVIDIA's library does not have it.
 *
 * Return: the size of the counters that the library knows.
 */
unsigned int gpumem_file_counters(struct gpumem_file_counters *counters, unsigned int size);

#ifdef __cplusplus
}
#endif

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif /* GPUMEM_CUFILE_STATS_H */
