/* SPDX-License-Identifier: MIT */
/*
 * What libgpumem offers beyond the CUDA driver API.
 *
 * The version follows semantic versioning: the same major version means that programs built
 * against an older minor version keep working.
 */
#ifndef GPUMEM_H
#define GPUMEM_H

#define GPUMEM_VERSION_MAJOR	0
#define GPUMEM_VERSION_MINOR	1
#define GPUMEM_VERSION_PATCH	0

/* One number to compare with. */
#define GPUMEM_VERSION_NUMBER(major, minor, patch) \
	((major) * 1000000 + (minor) * 1000 + (patch))
#define GPUMEM_VERSION_CODE \
	GPUMEM_VERSION_NUMBER(GPUMEM_VERSION_MAJOR, GPUMEM_VERSION_MINOR, GPUMEM_VERSION_PATCH)

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/**
 * gpumem_version - the version of the library that is loaded
 *
 * It may differ from the version of this header. May be called before cuInit().
 *
 * Return: "major.minor.patch", valid for ever.
 */
const char *gpumem_version(void);

/**
 * gpumem_init_error - why the last cuInit() found no device, for people
 *
 * One line without a line end, such as "gpumem: /dev/gpumem0: permission denied: add yourself to
 * group render".
 *
 * Return: the text, valid until the next cuInit(); NULL if cuInit() was not called or succeeded.
 */
const char *gpumem_init_error(void);

#ifdef __cplusplus
}
#endif

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif /* GPUMEM_H */
