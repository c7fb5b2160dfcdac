/* SPDX-License-Identifier: MIT */
/*
 * The OpenGL functions of the CUDA driver API, which programs look up by name.
 *
 * OpenGL's own headers are not needed: this file declares the two types of OpenGL that it uses.
 * As in cuda.h, functions carry the names of their symbols and are mapped afterwards.
 */
#ifndef CUDAGL_H
#define CUDAGL_H

#include "cuda.h"

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A kind and the name of an OpenGL object. */
typedef unsigned int GLenum;
typedef unsigned int GLuint;

/* cuGLGetDevices(): all devices of the current OpenGL context, or those of one frame. */
typedef enum CUGLDeviceList_enum {
	CU_GL_DEVICE_LIST_ALL		= 1,
	CU_GL_DEVICE_LIST_CURRENT_FRAME	= 2,
	CU_GL_DEVICE_LIST_NEXT_FRAME	= 3
} CUGLDeviceList;

/* cuGLSetBufferObjectMapFlags(); one value. */
typedef enum CUGLmap_flags_enum {
	CU_GL_MAP_RESOURCE_FLAGS_NONE		= 0,
	CU_GL_MAP_RESOURCE_FLAGS_READ_ONLY	= 1,
	CU_GL_MAP_RESOURCE_FLAGS_WRITE_DISCARD	= 2
} CUGLmap_flags;

/* Devices, and resources for cuGraphicsMapResources(). */
CUresult CUDAAPI cuGLGetDevices_v2(unsigned int *found, CUdevice *devices, unsigned int count,
				   CUGLDeviceList list);
CUresult CUDAAPI cuGraphicsGLRegisterBuffer(CUgraphicsResource *resource, GLuint buffer,
					    unsigned int flags);
CUresult CUDAAPI cuGraphicsGLRegisterImage(CUgraphicsResource *resource, GLuint image,
					   GLenum target, unsigned int flags);

/* The first interface: buffers are registered and mapped by their OpenGL names. Sizes are bytes. */
CUresult CUDAAPI cuGLInit(void);
CUresult CUDAAPI cuGLCtxCreate_v2(CUcontext *ctx, unsigned int flags, CUdevice device);
CUresult CUDAAPI cuGLRegisterBufferObject(GLuint buffer);
CUresult CUDAAPI cuGLUnregisterBufferObject(GLuint buffer);
CUresult CUDAAPI cuGLSetBufferObjectMapFlags(GLuint buffer, unsigned int flags);
CUresult CUDAAPI cuGLMapBufferObject_v2(CUdeviceptr *ptr, size_t *size, GLuint buffer);
CUresult CUDAAPI cuGLMapBufferObject_v2_ptds(CUdeviceptr *ptr, size_t *size, GLuint buffer);
CUresult CUDAAPI cuGLMapBufferObjectAsync_v2(CUdeviceptr *ptr, size_t *size, GLuint buffer,
					     CUstream stream);
CUresult CUDAAPI cuGLMapBufferObjectAsync_v2_ptsz(CUdeviceptr *ptr, size_t *size, GLuint buffer,
						  CUstream stream);
CUresult CUDAAPI cuGLUnmapBufferObject(GLuint buffer);
CUresult CUDAAPI cuGLUnmapBufferObjectAsync(GLuint buffer, CUstream stream);

#ifdef __CUDA_API_VERSION_INTERNAL
CUresult CUDAAPI cuGLGetDevices(unsigned int *found, CUdevice *devices, unsigned int count,
				CUGLDeviceList list);
CUresult CUDAAPI cuGLCtxCreate(CUcontext *ctx, unsigned int flags, CUdevice device);
CUresult CUDAAPI cuGLMapBufferObject(CUdeviceptr_v1 *ptr, unsigned int *size, GLuint buffer);
CUresult CUDAAPI cuGLMapBufferObjectAsync(CUdeviceptr_v1 *ptr, unsigned int *size, GLuint buffer,
					  CUstream stream);
#endif

#ifdef __cplusplus
}
#endif

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifndef __CUDA_API_VERSION_INTERNAL
#define cuGLCtxCreate			cuGLCtxCreate_v2
#define cuGLGetDevices			cuGLGetDevices_v2
#define cuGLMapBufferObject		GPUMEM_PTDS(cuGLMapBufferObject_v2)
#define cuGLMapBufferObjectAsync	GPUMEM_PTSZ(cuGLMapBufferObjectAsync_v2)
#endif

#endif /* CUDAGL_H */
