// SPDX-License-Identifier: GPL-2.0
/* Arrays of the runtime API in C: rows, boxes, levels, and what a texture would be bound to. */
#include <cuda_runtime_api.h>
#include <string.h>

int main(void)
{
	struct cudaChannelFormatDesc desc = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
	struct cudaExtent extent = { 64, 32, 0 };
	struct cudaResourceDesc resource;
	struct cudaTextureDesc texture;
	struct cudaMemcpy3DParms copy = { 0 };
	static float rows[32][64];
	cudaMipmappedArray_t mipmap;
	cudaArray_t array, level;

	if (cudaMallocArray(&array, &desc, 64, 32, cudaArrayDefault) ||
	    cudaMallocMipmappedArray(&mipmap, &desc, extent, 3, cudaArraySurfaceLoadStore) ||
	    cudaGetMipmappedArrayLevel(&level, mipmap, 1))
		return 1;
	cudaMemcpy2DToArray(array, 0, 0, rows, sizeof(rows[0]), sizeof(rows[0]), 32, cudaMemcpyHostToDevice);
	copy.srcArray = array;
	copy.dstArray = level;
	copy.extent.width = 32;
	copy.extent.height = 16;
	copy.extent.depth = 1;
	copy.kind = cudaMemcpyDeviceToDevice;
	cudaMemcpy3D(&copy);
	memset(&resource, 0, sizeof(resource));
	resource.resType = cudaResourceTypeArray;
	resource.res.array.array = array;
	memset(&texture, 0, sizeof(texture));
	texture.addressMode[0] = cudaAddressModeClamp;
	texture.filterMode = cudaFilterModeLinear;
	texture.readMode = cudaReadModeElementType;
	return cudaFreeMipmappedArray(mipmap) || cudaFreeArray(array) || texture.sRGB;
}
