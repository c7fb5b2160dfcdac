// SPDX-License-Identifier: GPL-2.0
/*
 * A program with code for the device, as libgomp sees it: our device takes none, and must say so.
 *
 * mkoffload adds to a program a constructor that registers an image. This one registers an image of
 * one line of PTX, without an offloading compiler, and then wants memory, which makes libgomp open
 * the device and load the image. The driver must refuse: the program ends here with libgomp's
 * message about it and status 1. Were the image taken, the program would succeed.
 */
#include <omp.h>
#include <stddef.h>

#include "gomp-constants.h"

void GOMP_offload_register_ver(unsigned int version, const void *host_table, int target_type,
			       const void *target_data);

static int host_function(void)
{
	return 0;
}

static void *functions[] = { (void *)host_function };
static void *const host_table[] = { functions, functions + 1, NULL, NULL };

static const struct {
	const char *code;
	size_t size;
} object = { "// BEGIN FUNCTION DECL: f\n", sizeof("// BEGIN FUNCTION DECL: f\n") };

static const struct {
	const char *name;
	unsigned short dimensions[GOMP_DIM_MAX];
} launch = { "f", { 0 } };

/* The image's description, as the plugin for Nvidia devices wants it. */
static const struct {
	const void *objects;
	unsigned int n_objects;
	const char *const *variables;
	unsigned int n_variables;
	const void *launches;
	unsigned int n_launches;
} image = { &object, 1, NULL, 0, &launch, 1 };

int main(void)
{
	GOMP_offload_register_ver(GOMP_VERSION_PACK(GOMP_VERSION, GOMP_VERSION_NVIDIA_PTX),
				  host_table, GOMP_DEVICE_NVIDIA_PTX, &image);
	return !omp_target_alloc(4096, 0);
}
