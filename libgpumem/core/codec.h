/* SPDX-License-Identifier: MIT */
/*
 * The libraries that decompress. codec.c owns the table.
 */
#ifndef GPUMEM_CORE_CODEC_H
#define GPUMEM_CORE_CODEC_H

#include <libdeflate.h>
#include <lz4.h>
#include <snappy-c.h>

#include "core/base.h"

/* The longest range, as on devices with a decompression engine. A worker's buffer has room for two such ranges. */
#define CODEC_LENGTH_MOST	(4ull << 20)

struct codec {
	__typeof__(&libdeflate_alloc_decompressor) deflate_alloc;
	__typeof__(&libdeflate_deflate_decompress) deflate;
	__typeof__(&snappy_uncompress) snappy;
	__typeof__(&LZ4_decompress_safe) lz4;
};
extern HIDDEN struct codec codec;	/* constant once loaded */

/* Whether any library is installed. */
bool codec_any(void);
/* Load an algorithm's library for an operation; codec_any() comes before. False: it is not installed. */
bool codec_load(unsigned int algorithm);
/* The device attributes: a mask of CU_MEM_DECOMPRESS_ALGORITHM_*, and the longest range, or 0. */
unsigned int codec_algorithms(void);
unsigned int codec_length(void);

#endif /* GPUMEM_CORE_CODEC_H */
