/* SPDX-License-Identifier: MIT */
/*
 * Names and texts of result codes. error.c owns the table.
 */
#ifndef GPUMEM_CORE_ERROR_H
#define GPUMEM_CORE_ERROR_H

#include "cuda.h"

/* The enumerator's spelling and a phrase for people; NULL: there is no such code. */
const char *error_name(CUresult code);
const char *error_text(CUresult code);

#endif /* GPUMEM_CORE_ERROR_H */
