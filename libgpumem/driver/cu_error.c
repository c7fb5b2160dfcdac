// SPDX-License-Identifier: MIT
/*
 * The API's chapter "Error Handling".
 *
 * Owns nothing. Both functions work before cuInit() and need no context.
 */
#include <stddef.h>

#include "core/error.h"

static CUresult answer(const char *found, const char **text)
{
	if (!text)
		return CUDA_ERROR_INVALID_VALUE;
	*text = found;
	return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/**
 * cuGetErrorName - the spelling of a result code
 * @error: any value
 * @text: receives the name, or NULL when there is no such code
 *
 * Return: CUDA_SUCCESS, or CUDA_ERROR_INVALID_VALUE for an unknown code or NULL @text.
 */
CUresult CUDAAPI cuGetErrorName(CUresult error, const char **text)
{
	return answer(error_name(error), text);
}

/**
 * cuGetErrorString - a phrase that describes a result code
 * @error: any value
 * @text: receives the phrase, or NULL when there is no such code
 *
 * Return: CUDA_SUCCESS, or CUDA_ERROR_INVALID_VALUE for an unknown code or NULL @text.
 */
CUresult CUDAAPI cuGetErrorString(CUresult error, const char **text)
{
	return answer(error_text(error), text);
}
