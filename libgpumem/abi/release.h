/* SPDX-License-Identifier: MIT */
/*
 * The release of NVIDIA's driver that the library stands for. release13.c defines it in the ordinary library,
 * release12.c in the library of gpumem/cuda12.
 */
#ifndef GPUMEM_RELEASE_H
#define GPUMEM_RELEASE_H

#pragma GCC visibility push(hidden)

/* 1000 times major, 10 times minor; functions of later versions do not exist. */
extern const int release_cuda;
/* The driver's number, and the number of its management library. */
extern const char release_driver[], release_nvml[];

#pragma GCC visibility pop

#endif /* GPUMEM_RELEASE_H */
