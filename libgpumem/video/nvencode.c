// SPDX-License-Identifier: MIT
/*
 * libnvidia-encode.so.1: the library of the video encoder, for devices that have no encoder.
 *
 * A program asks for the version, gets a table of functions, and opens a session with a function of the
 * table. Opening fails with UNSUPPORTED_DEVICE, as on a GPU without an encoder, such as an H200. No
 * session exists, so all other functions of the table refuse their first argument, the session.
 *
 * The table has the layout of NV_ENCODE_API_FUNCTION_LIST. The library has no state, and does not call
 * the driver.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EXPORT	__attribute__((visibility("default")))

/* NVENCSTATUS */
enum {
	ENC_SUCCESS = 0,
	ENC_UNSUPPORTED_DEVICE = 2,
	ENC_INVALID_PTR = 6,
	ENC_INVALID_PARAM = 8,
	ENC_INVALID_VERSION = 15,
};

/* Version 13.0: the major in bits 4 and up for the query, in the low byte of structures. */
#define ENC_MAJOR	13u
#define ENC_MINOR	0u

#define ENC_FUNCTIONS	318
#define ENC_DEFINED	43		/* the functions of version 13.0 */
#define ENC_OPEN	0
#define ENC_OPEN_EX	29
#define ENC_RESERVED	33
#define ENC_LAST_ERROR	37

struct enc_table {
	uint32_t version;
	uint32_t reserved;
	void *function[ENC_FUNCTIONS];
};
/* 2552 bytes since the first release: a function that is added takes a reserved place. */
_Static_assert(sizeof(struct enc_table) == 2552, "NV_ENCODE_API_FUNCTION_LIST has 2552 bytes");

/* nvEncOpenEncodeSession(device, type, encoder) */
static int enc_open(void *device, uint32_t type, void **session)
{
	(void)type;
	return device && session ? ENC_UNSUPPORTED_DEVICE : ENC_INVALID_PTR;
}

/* nvEncOpenEncodeSessionEx(params, encoder) */
static int enc_open_ex(void *params, void **session)
{
	return params && session ? ENC_UNSUPPORTED_DEVICE : ENC_INVALID_PTR;
}

static const char *enc_last_error(void *session)
{
	(void)session;
	return "the device has no encoder";
}

/* Everything else. */
static int enc_no_session(void *session)
{
	return session ? ENC_INVALID_PARAM : ENC_INVALID_PTR;
}

EXPORT int NvEncodeAPIGetMaxSupportedVersion(uint32_t *version)
{
	if (!version)
		return ENC_INVALID_PTR;
	*version = ENC_MAJOR << 4 | ENC_MINOR;
	return ENC_SUCCESS;
}

EXPORT int NvEncodeAPICreateInstance(struct enc_table *table)
{
	if (!table)
		return ENC_INVALID_PTR;
	/* The API's major version in the low byte, then 7 in bits 28 to 30; older programs work. */
	if (table->version >> 28 != 7 || (table->version & 0xff) > ENC_MAJOR)
		return ENC_INVALID_VERSION;
	for (unsigned int i = 0; i < ENC_DEFINED; i++)
		table->function[i] = (void *)enc_no_session;
	table->function[ENC_OPEN] = (void *)enc_open;
	table->function[ENC_OPEN_EX] = (void *)enc_open_ex;
	table->function[ENC_RESERVED] = NULL;
	table->function[ENC_LAST_ERROR] = (void *)enc_last_error;
	return ENC_SUCCESS;
}
