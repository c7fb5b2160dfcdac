// SPDX-License-Identifier: GPL-2.0
/*
 * Rights of several locations in mappings of cuMemMap(): two devices and the host, for memory of each.  The rights
 * of a device decide what copies and fills of its streams may do; the rights of all locations together, or those of
 * the host in strict mode, decide what the CPU may do.  t_cuda_vmm.c has reservations and mappings.
 *
 * Needs a module with devices=2 or more.
 */
#include <limits.h>

#include "kselftest_harness.h"

#include "cuda_case_util.h"
#include "common/process.h"

#define G		(2 * MIB)
#define POSIX_FD	CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define DEVICES		2

enum { NO = 0, RO = CU_MEM_ACCESS_FLAGS_PROT_READ, RW = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };

typedef CUmemGenericAllocationHandle handle_t;

FIXTURE(rights)
{
	CUcontext ctx[DEVICES];		/* primary contexts; the first is current */
	CUstream s[DEVICES];
	CUdeviceptr own[DEVICES];	/* memory of each context, G bytes */
};

FIXTURE_SETUP(rights)
{
	cuda_begin(_metadata, &self->ctx[0]);
	ASSERT_CU(cuDevicePrimaryCtxRetain(&self->ctx[1], 1));
	for (int i = DEVICES - 1; i >= 0; i--) {
		ASSERT_CU(cuCtxSetCurrent(self->ctx[i]));
		ASSERT_CU(cuStreamCreate(&self->s[i], CU_STREAM_NON_BLOCKING));
		ASSERT_CU(cuMemAlloc(&self->own[i], G));
	}
}

QUIET_AFTERWARDS(rights)

static CUmemLocation device(int id)
{
	return (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = id };
}

static CUmemLocation host(void)
{
	return (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_HOST };
}

static CUmemLocation node(int id)
{
	return (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = id };
}

static CUresult make(handle_t *h, CUmemLocation location, int types)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = types, .location = location,
	};

	return cuMemCreate(h, G, &prop, 0);
}

/* Map new memory at @d, and release its handle. */
static CUresult put_memory(CUdeviceptr d, CUmemLocation location)
{
	CUresult result, released;
	handle_t h;

	result = make(&h, location, 0);
	if (result)
		return result;
	result = cuMemMap(d, G, 0, h, 0);
	released = cuMemRelease(h);
	return result ? result : released;
}

static CUmemAccessDesc right(CUmemLocation location, int flags)
{
	return (CUmemAccessDesc){ .location = location, .flags = flags };
}

static CUresult give(CUdeviceptr d, size_t n, CUmemLocation location, int flags)
{
	const CUmemAccessDesc desc = right(location, flags);

	return cuMemSetAccess(d, n, &desc, 1);
}

/* The right of a location; minus the error if the call fails. */
static int right_of(CUdeviceptr d, CUmemLocation location)
{
	unsigned long long flags = 77;
	CUresult result = cuMemGetAccess(&flags, &location, d);

	return result ? -(int)result : (int)flags;
}

/* Whether the calls say that the devices have just these rights. */
static bool rights_are(CUdeviceptr d, int first, int second)
{
	return right_of(d, device(0)) == first && right_of(d, device(1)) == second;
}

static CUresult allowed(int have, int want)
{
	return (have & want) == want ? CUDA_SUCCESS : INVALID;
}

/*
 * Every kind of access to mapped memory in a context of a device that has the right @have.  Returns the line of the
 * first call whose answer is wrong, or 0.  If the device may write, the memory holds @value afterwards.
 */
#define WANT(result, call) do {			\
	if ((call) != (result))			\
		return __LINE__;		\
} while (0)

static int accesses(CUcontext ctx, CUstream s, CUdeviceptr own, CUdeviceptr d, int have, unsigned char value)
{
	/* There is no right to write alone. */
	const CUresult reads = allowed(have, RO), writes = allowed(have, RW);
	unsigned char byte = 0, host_bytes[64];

	memset(host_bytes, 1, sizeof(host_bytes));
	WANT(CUDA_SUCCESS, cuCtxSetCurrent(ctx));
	WANT(CUDA_SUCCESS, cuMemsetD8(own, 2, G));
	WANT(writes, cuMemcpyHtoD(d + 5, host_bytes, sizeof(host_bytes)));
	WANT(writes, cuMemcpyHtoDAsync(d + 5, host_bytes, sizeof(host_bytes), s));
	WANT(writes, cuMemcpyDtoD(d, own, G));
	WANT(writes, cuMemcpyDtoDAsync(d, own, G, s));
	WANT(writes, cuMemcpyAsync(d, own, 64, s));
	WANT(writes, cuMemsetD8(d + 1, 3, 64));
	WANT(CUDA_SUCCESS, cuCtxSynchronize());
	WANT(writes, cuMemsetD32Async(d, value * 0x01010101, G / 4, s));
	WANT(reads, cuMemcpyDtoHAsync(host_bytes, d, sizeof(host_bytes), s));
	WANT(CUDA_SUCCESS, cuStreamSynchronize(s));
	WANT(reads, cuMemcpyDtoH(&byte, d + G - 1, 1));
	WANT(reads, cuMemcpyDtoDAsync(own, d, G, s));
	WANT(reads, cuMemcpyDtoD(own, d, G));
	WANT(CUDA_SUCCESS, cuCtxSynchronize());
	if (!writes && (byte != value || host_bytes[63] != value || !sees(own + G / 2, value, 64)))
		return __LINE__;
	return 0;
}

/* Check all accesses of both devices, with the rights @first and @second; the first context is current afterwards. */
#define EXPECT_ACCESSES(d, first, second) do {	\
	EXPECT_TRUE(rights_are(d, first, second)); \
	EXPECT_EQ(0, accesses(self->ctx[0], self->s[0], self->own[0], d, first, 10 + (first) * 4 + (second))); \
	EXPECT_EQ(0, accesses(self->ctx[1], self->s[1], self->own[1], d, second, 80 + (first) * 4 + (second))); \
	ASSERT_CU(cuCtxSetCurrent(self->ctx[0])); \
} while (0)

/* Memory of each device, with rights of one device, of the other, and of both. */
TEST_F(rights, one_device_then_the_other)
{
	static const int steps[][2] = {
		{ NO, NO }, { RW, NO }, { NO, RW }, { RO, RW }, { RW, RO }, { RO, NO }, { NO, RO }, { RW, RW }, { NO, NO },
	};

	for (int home = 0; home < DEVICES; home++) {
		long long before[DEVICES] = { used(0), used(1) }, mapped;
		CUmemAllocationProp prop;
		CUdeviceptr d;
		handle_t h;
		int ordinal;

		ASSERT_CU(make(&h, device(home), 0));
		EXPECT_LE(before[home] + (long long)G, used(home));
		EXPECT_EQ(before[!home], used(!home));
		ASSERT_CU(cuMemGetAllocationPropertiesFromHandle(&prop, h));
		EXPECT_EQ(home, prop.location.id);
		ASSERT_CU(cuMemAddressReserve(&d, G, 0, 0, 0));
		ASSERT_CU(cuMemMap(d, G, 0, h, 0));
		ASSERT_CU(cuMemRelease(h));
		ASSERT_CU(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, d));
		EXPECT_EQ(home, ordinal);
		for (unsigned int i = 0; i < ARRAY_SIZE(steps); i++) {
			ASSERT_CU(give(d, G, device(0), steps[i][0]));
			ASSERT_CU(give(d, G, device(1), steps[i][1]));
			EXPECT_ACCESSES(d, steps[i][0], steps[i][1]);
		}
		mapped = used(home);
		ASSERT_CU(cuMemUnmap(d, G));
		EXPECT_EQ(mapped - (long long)G, used(home));
		EXPECT_EQ(-INVALID, right_of(d, device(0)));
		EXPECT_EQ(-INVALID, right_of(d, device(1)));
		ASSERT_CU(cuMemAddressFree(d, G));
	}
}

/* Two addresses of one memory have rights of their own, and rights end with their mapping. */
TEST_F(rights, each_address)
{
	CUdeviceptr d;
	handle_t h;

	ASSERT_CU(make(&h, device(1), 0));
	ASSERT_CU(cuMemAddressReserve(&d, 2 * G, 0, 0, 0));
	ASSERT_CU(cuMemMap(d, G, 0, h, 0));
	ASSERT_CU(cuMemMap(d + G, G, 0, h, 0));
	ASSERT_CU(give(d, G, device(0), RW));
	ASSERT_CU(give(d + G, G, device(1), RW));
	EXPECT_TRUE(rights_are(d, RW, NO));
	EXPECT_TRUE(rights_are(d + G, NO, RW));
	EXPECT_CU(cuMemsetD8(d, 0x42, G));
	EXPECT_EQ(INVALID, cuMemsetD8(d + G, 1, G));
	/* A range over both needs the right to both. */
	EXPECT_EQ(INVALID, cuMemsetD8(d, 1, 2 * G));
	EXPECT_EQ(INVALID, cuMemcpyDtoD(self->own[0], d + G - 64, 128));
	ASSERT_CU(cuCtxSynchronize());
	ASSERT_CU(cuCtxSetCurrent(self->ctx[1]));
	EXPECT_CU(cuMemcpyDtoD(self->own[1], d + G, G));
	ASSERT_CU(cuCtxSynchronize());
	EXPECT_TRUE(sees(self->own[1] + G - 64, 0x42, 64));
	EXPECT_EQ(INVALID, cuMemcpyDtoD(self->own[1], d, G));
	ASSERT_CU(cuMemUnmap(d, 2 * G));
	ASSERT_CU(cuMemMap(d, G, 0, h, 0));
	EXPECT_TRUE(rights_are(d, NO, NO));
	EXPECT_EQ(INVALID, cuMemsetD8(d, 1, G));
	ASSERT_CU(cuMemUnmap(d, G));
	ASSERT_CU(cuMemRelease(h));
	ASSERT_CU(cuMemAddressFree(d, 2 * G));
}

/* One call gives rights of several locations in mappings of memory of both devices. */
TEST_F(rights, several_in_one_call)
{
	CUmemAccessDesc desc[4];
	CUdeviceptr d;

	ASSERT_CU(cuMemAddressReserve(&d, 4 * G, 0, 0, 0));
	for (int i = 0; i < 3; i++)
		ASSERT_CU(put_memory(d + i * G, device(i % 2)));
	desc[0] = right(device(0), RO);
	desc[1] = right(device(1), RW);
	ASSERT_CU(cuMemSetAccess(d, 3 * G, desc, 2));
	for (int i = 0; i < 3; i++)
		EXPECT_ACCESSES(d + i * G, RO, RW);
	/* The last entry of a location counts; a location that is not in the list keeps its right. */
	desc[0] = right(device(0), RW);
	desc[1] = right(device(0), NO);
	desc[2] = right(device(0), RO);
	desc[3] = right(device(0), RW);
	ASSERT_CU(cuMemSetAccess(d + G, G, desc, 3));
	EXPECT_TRUE(rights_are(d + G, RO, RW));
	ASSERT_CU(cuMemSetAccess(d + G, 2 * G, desc, 4));
	EXPECT_TRUE(rights_are(d, RO, RW));
	EXPECT_TRUE(rights_are(d + G, RW, RW));
	EXPECT_TRUE(rights_are(d + 2 * G, RW, RW));
	desc[0] = right(device(1), NO);
	desc[1] = right(device(0), NO);
	desc[2] = right(device(1), RO);
	ASSERT_CU(cuMemSetAccess(d + 2 * G, G, desc, 3));
	EXPECT_ACCESSES(d + 2 * G, NO, RO);
	EXPECT_ACCESSES(d + G, RW, RW);
	ASSERT_CU(cuMemUnmap(d, 3 * G));
	ASSERT_CU(cuMemAddressFree(d, 4 * G));
}

/* A call with one entry or one mapping that is refused changes no right at all. */
TEST_F(rights, refused_call_changes_nothing)
{
	CUmemAccessDesc desc[3] = { right(device(0), NO), right(device(1), RW) };
	CUdeviceptr d;

	ASSERT_CU(cuMemAddressReserve(&d, 4 * G, 0, 0, 0));
	ASSERT_CU(put_memory(d, device(0)));
	ASSERT_CU(put_memory(d + G, device(1)));
	ASSERT_CU(put_memory(d + 2 * G, host()));
	ASSERT_CU(give(d, 3 * G, device(0), RW));
	ASSERT_CU(give(d, 3 * G, device(1), RO));

	/* The reservation's last piece is a hole; ranges of parts of mappings. */
	EXPECT_EQ(INVALID, cuMemSetAccess(d, 4 * G, desc, 2));
	EXPECT_EQ(INVALID, cuMemSetAccess(d + 3 * G, G, desc, 2));
	EXPECT_EQ(INVALID, cuMemSetAccess(d, 2 * G + 4096, desc, 2));
	EXPECT_EQ(INVALID, cuMemSetAccess(d + 4096, G - 4096, desc, 2));
	EXPECT_EQ(INVALID, cuMemSetAccess(d, 3 * G, desc, 0));
	EXPECT_EQ(INVALID, cuMemSetAccess(d, 3 * G, NULL, 2));
	/* Ordinals that do not exist, locations that are none, rights that are none. */
	for (unsigned int i = 0; i < 12; i++) {
		const CUmemAccessDesc bad[] = {
			right(device(-1), RW), right(device(dev_count()), RW), right(device(31), RW),
			right(device(32), RW), right(device(INT_MAX), RW), right(device(INT_MIN), NO),
			right(node(-1), RW), right(node(1023), RW), right(node(INT_MAX), RW),
			right((CUmemLocation){ .type = 0 }, RW), right((CUmemLocation){ .type = 77 }, RW),
			right(device(1), 2),
		};

		desc[2] = bad[i];
		EXPECT_EQ(INVALID, cuMemSetAccess(d, 3 * G, desc, 3)) {
			TH_LOG("entry %u", i);
		}
		EXPECT_EQ(INVALID, cuMemSetAccess(d, 3 * G, &desc[2], 1));
	}
	/* The host gets no right in memory of a device, also beside memory of the host. */
	desc[2] = right(host(), RW);
	EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, cuMemSetAccess(d, G, desc, 3));
	EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, cuMemSetAccess(d, 3 * G, desc, 3));
	desc[2] = right(node(0), NO);
	EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, cuMemSetAccess(d + G, 2 * G, desc, 3));
	for (int i = 0; i < 3; i++)
		EXPECT_TRUE(rights_are(d + i * G, RW, RO));
	EXPECT_EQ(NO, right_of(d + 2 * G, node(0)));
	EXPECT_ACCESSES(d + G, RW, RO);
	ASSERT_CU(cuMemUnmap(d, 3 * G));
	ASSERT_CU(cuMemAddressFree(d, 4 * G));
}

/* Ordinals that do not exist, in the other calls that take a location. */
TEST_F(rights, ordinals)
{
	static const int none[] = { -1, DEVICES, 31, 32, 64, INT_MAX, INT_MIN };
	CUdeviceptr d;
	handle_t h;

	ASSERT_EQ(DEVICES, dev_count());
	ASSERT_CU(cuMemAddressReserve(&d, G, 0, 0, 0));
	ASSERT_CU(put_memory(d, device(1)));
	ASSERT_CU(give(d, G, device(0), RW));
	for (unsigned int i = 0; i < ARRAY_SIZE(none); i++) {
		EXPECT_EQ(CUDA_ERROR_INVALID_DEVICE, make(&h, device(none[i]), 0));
		EXPECT_EQ(-CUDA_ERROR_INVALID_DEVICE, right_of(d, device(none[i])));
		EXPECT_EQ(-CUDA_ERROR_INVALID_DEVICE, right_of(d, (CUmemLocation){ .type = 77, .id = none[i] }));
	}
	EXPECT_EQ(INVALID, make(&h, node(-1), 0));
	EXPECT_EQ(INVALID, make(&h, node(1023), 0));
	/* The number of the host as a whole is not used. */
	ASSERT_CU(make(&h, (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_HOST, .id = 5 }, 0));
	EXPECT_CU(cuMemRelease(h));
	EXPECT_EQ(RW, right_of(d, (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_HOST, .id = -3 }));
	EXPECT_TRUE(rights_are(d, RW, NO));
	ASSERT_CU(cuMemUnmap(d, G));
	ASSERT_CU(cuMemAddressFree(d, G));
}

/*
 * Memory of the host with all combinations of rights of two devices and the host.  The CPU has all of them together,
 * or in strict mode the host's; CU_MEM_LOCATION_TYPE_HOST asks for all, CU_MEM_LOCATION_TYPE_HOST_NUMA for the host's.
 */
TEST_F(rights, of_host_memory)
{
	static const int each[] = { NO, RO, RW };
	const CUmemLocation locations[] = { host(), node(0) };

	for (unsigned int l = 0; l < ARRAY_SIZE(locations); l++) {
		CUdeviceptr d;

		ASSERT_CU(cuMemAddressReserve(&d, G, 0, 0, 0));
		ASSERT_CU(put_memory(d, locations[l]));
		EXPECT_EQ(NO, right_of(d, host()));
		EXPECT_TRUE(faults_with(cpu(d), false, SIGSEGV));
		for (unsigned int i = 0; i < 27; i++) {
			/* An order in which rights rise and fall, and several change at a time. */
			const unsigned int n = i * 10 % 27;
			const int a = each[n % 3], b = each[n / 3 % 3], c = each[n / 9];
			const int all = strict() ? c : a | b | c;
			const CUmemAccessDesc desc[] = {
				right(device(0), a), right(locations[i % 2], c), right(device(1), b),
			};

			ASSERT_CU(cuMemSetAccess(d, G, desc, 3));
			EXPECT_TRUE(rights_are(d, a, b));
			EXPECT_EQ(a | b | c, right_of(d, host()));
			EXPECT_EQ(c, right_of(d, node(0)));
			EXPECT_EQ(!(all & RO), faults_with(cpu(d) + n, false, SIGSEGV));
			EXPECT_EQ(all != RW, faults_with(cpu(d) + n, true, SIGSEGV)) {
				TH_LOG("rights %d, %d, host %d", a, b, c);
			}
			/* Fills are the device's. */
			EXPECT_EQ(allowed(a, RW), cuMemsetD8(d, n, 64));
			ASSERT_CU(cuCtxSynchronize());
			if (a == RW && all)
				EXPECT_TRUE(all_are(cpu(d), n, 64));
			/* The device or the CPU copies. */
			if (a & RO || c & RO)
				EXPECT_CU(cuMemcpyDtoH(&(char){ 0 }, d, 1));
			if (!(a | b | c))
				EXPECT_EQ(INVALID, cuMemcpyDtoH(&(char){ 0 }, d, 1));
			ASSERT_CU(cuCtxSetCurrent(self->ctx[1]));
			EXPECT_EQ(allowed(b, RW), cuMemsetD8(d, n + 1, 64));
			ASSERT_CU(cuCtxSynchronize());
			ASSERT_CU(cuCtxSetCurrent(self->ctx[0]));
		}
		ASSERT_CU(cuMemUnmap(d, G));
		EXPECT_TRUE(faults_with(cpu(d), false, SIGSEGV));
		ASSERT_CU(cuMemAddressFree(d, G));
	}
}

/*
 * The device of the current context needs the right to what a copy uses, and the device of the stream needs none.  The
 * engine of the stream's device executes the copy with the rights of the other device.
 */
TEST_F(rights, of_the_current_context)
{
	static const int steps[] = { RW, RO, NO };
	unsigned char host_bytes[64];

	for (int home = 0; home <= DEVICES; home++) {
		CUdeviceptr d;

		ASSERT_CU(cuMemAddressReserve(&d, G, 0, 0, 0));
		ASSERT_CU(put_memory(d, home < DEVICES ? device(home) : host()));
		for (int cur = 0; cur < DEVICES; cur++) {
			ASSERT_CU(cuCtxSetCurrent(self->ctx[cur]));
			ASSERT_CU(give(d, G, device(cur), RW));
			ASSERT_CU(cuMemsetD8(d, 5, G));
			ASSERT_CU(cuMemsetD8(self->own[cur], 9, G));
			ASSERT_CU(cuCtxSynchronize());
			for (unsigned int i = 0; i < ARRAY_SIZE(steps); i++) {
				const CUresult reads = allowed(steps[i], RO), writes = allowed(steps[i], RW);
				CUstream other = self->s[!cur];

				ASSERT_CU(give(d, G, device(cur), steps[i]));
				ASSERT_CU(give(d, G, device(!cur), NO));
				memset(host_bytes, 0, sizeof(host_bytes));
				EXPECT_EQ(reads, cuMemcpyDtoDAsync(self->own[cur], d, G / 2, other));
				EXPECT_EQ(reads, cuMemcpyDtoHAsync(host_bytes, d, sizeof(host_bytes), other));
				EXPECT_EQ(writes, cuMemcpyDtoDAsync(d, self->own[cur] + G / 2, G / 2, other));
				EXPECT_EQ(writes, cuMemcpyAsync(d + G - 64, self->own[cur] + G / 2, 64, other));
				EXPECT_CU(cuStreamSynchronize(other));
				if (!reads)
					EXPECT_TRUE(all_are(host_bytes, i ? 9 : 5, sizeof(host_bytes)));
				if (!reads)
					EXPECT_TRUE(sees(self->own[cur], i ? 9 : 5, G / 2));
			}
			/* The right of the stream's device is not enough. */
			ASSERT_CU(give(d, G, device(!cur), RW));
			EXPECT_EQ(INVALID, cuMemcpyDtoDAsync(self->own[cur], d, G, self->s[!cur]));
			EXPECT_EQ(INVALID, cuMemcpyDtoDAsync(d, self->own[cur], G, self->s[!cur]));
			ASSERT_CU(cuCtxSetCurrent(self->ctx[!cur]));
			ASSERT_CU(cuMemcpyDtoD(self->own[!cur], d, G));
			ASSERT_CU(cuCtxSynchronize());
			EXPECT_TRUE(sees(self->own[!cur], 9, G / 2) && sees(self->own[!cur] + G / 2, 5, G / 2 - 64) &&
				    sees(self->own[!cur] + G - 64, 9, 64));
		}
		ASSERT_CU(cuCtxSetCurrent(self->ctx[0]));
		ASSERT_CU(cuMemUnmap(d, G));
		ASSERT_CU(cuMemAddressFree(d, G));
	}
}

/* Whether @n bytes, at most 128, have a value as a copy sees them: the CPU may have no right. */
static bool copied(CUdeviceptr d, unsigned char value, size_t n)
{
	unsigned char bytes[128];

	memset(bytes, ~value, n);
	return !cuMemcpyDtoH(bytes, d, n) && all_are(bytes, value, n);
}

/* A range over mappings of memory of a device and of the host is like any other: each part needs the right. */
TEST_F(rights, over_device_and_host)
{
	unsigned char host_bytes[128];

	for (int host_first = 0; host_first < 2; host_first++) {
		CUdeviceptr d, edge;

		ASSERT_CU(cuMemAddressReserve(&d, 2 * G, 0, 0, 0));
		ASSERT_CU(put_memory(d, host_first ? host() : device(0)));
		ASSERT_CU(put_memory(d + G, host_first ? device(0) : node(0)));
		ASSERT_CU(give(d, 2 * G, device(0), RW));
		edge = d + G - 64;
		memset(host_bytes, 1, sizeof(host_bytes));
		EXPECT_CU(cuMemcpyHtoD(edge, host_bytes, 128));
		EXPECT_TRUE(copied(edge, 1, 128));
		EXPECT_CU(cuMemsetD8(self->own[0], 2, G));
		EXPECT_CU(cuMemcpyDtoD(edge, self->own[0], 128));
		EXPECT_TRUE(copied(edge, 2, 128));
		EXPECT_CU(cuMemsetD8(edge, 3, 128));
		EXPECT_CU(cuMemcpyDtoDAsync(self->own[0], edge, 128, self->s[0]));
		EXPECT_CU(cuStreamSynchronize(self->s[0]));
		EXPECT_TRUE(sees(self->own[0], 3, 128));
		for (int part = 0; part < 2; part++) {
			ASSERT_CU(give(d + part * G, G, device(0), RO));
			EXPECT_CU(cuMemcpyDtoD(self->own[0], edge, 128));
			EXPECT_EQ(INVALID, cuMemcpyDtoD(edge, self->own[0], 128));
			ASSERT_CU(cuCtxSynchronize());
			ASSERT_CU(give(d + part * G, G, device(0), NO));
			EXPECT_EQ(INVALID, cuMemcpyDtoD(self->own[0], edge, 128));
			EXPECT_EQ(INVALID, cuMemsetD8(edge, 4, 128));
			ASSERT_CU(give(d + part * G, G, device(0), RW));
			EXPECT_TRUE(copied(edge, 3, 128));
		}
		ASSERT_CU(cuCtxSynchronize());
		ASSERT_CU(cuMemUnmap(d, 2 * G));
		ASSERT_CU(cuMemAddressFree(d, 2 * G));
	}
}

/* Memory of the second device from a descriptor is the second device's, and the first can get a right to it. */
TEST_F(rights, imported_of_second_device)
{
	CUmemAllocationProp prop;
	handle_t h, imported;
	CUdeviceptr d;
	int fd;

	ASSERT_CU(make(&h, device(1), POSIX_FD));
	ASSERT_CU(cuMemExportToShareableHandle(&fd, h, POSIX_FD, 0));
	ASSERT_CU(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)fd, POSIX_FD));
	EXPECT_EQ(0, close(fd));
	ASSERT_CU(cuMemGetAllocationPropertiesFromHandle(&prop, imported));
	EXPECT_EQ(CU_MEM_LOCATION_TYPE_DEVICE, prop.location.type);
	EXPECT_EQ(1, prop.location.id);
	ASSERT_CU(cuMemAddressReserve(&d, 2 * G, 0, 0, 0));
	ASSERT_CU(cuMemMap(d, G, 0, h, 0));
	ASSERT_CU(cuMemMap(d + G, G, 0, imported, 0));
	ASSERT_CU(give(d, G, device(1), RW));
	ASSERT_CU(give(d + G, G, device(0), RO));
	EXPECT_ACCESSES(d, NO, RW);
	EXPECT_TRUE(rights_are(d + G, RO, NO));
	EXPECT_CU(cuMemcpyDtoD(self->own[0], d + G, G));
	ASSERT_CU(cuCtxSynchronize());
	EXPECT_TRUE(sees(self->own[0], 80 + RW, G));
	EXPECT_EQ(INVALID, cuMemsetD8(d + G, 1, 1));
	ASSERT_CU(cuMemUnmap(d, 2 * G));
	ASSERT_CU(cuMemAddressFree(d, 2 * G));
	ASSERT_CU(cuMemRelease(imported));
	ASSERT_CU(cuMemRelease(h));
}

/* Queued work of a device that loses its right fails and ends its context; the other device's goes on. */
TEST_F(rights, lost_by_queued_work)
{
	volatile cuuint32_t *word;
	CUdeviceptr d;
	CUresult result;

	ASSERT_CU(cuMemHostAlloc((void **)&word, sizeof(*word), CU_MEMHOSTALLOC_PORTABLE));
	ASSERT_CU(cuMemAddressReserve(&d, G, 0, 0, 0));
	ASSERT_CU(put_memory(d, device(1)));
	ASSERT_CU(give(d, G, device(0), RW));
	ASSERT_CU(give(d, G, device(1), RW));
	for (int i = 0; i < DEVICES; i++) {
		ASSERT_CU(cuCtxSetCurrent(self->ctx[i]));
		ASSERT_CU(gate_put(self->s[i], word));
		ASSERT_CU(cuMemsetD8Async(d + i * MIB, 7, MIB, self->s[i]));
	}
	ASSERT_CU(give(d, G, device(1), NO));
	gate_open(word);
	ASSERT_CU(cuCtxSetCurrent(self->ctx[1]));
	result = cuStreamSynchronize(self->s[1]);
	EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, result);
	ASSERT_CU(cuCtxSetCurrent(self->ctx[0]));
	EXPECT_CU(cuStreamSynchronize(self->s[0]));
	EXPECT_CU(cuMemcpyDtoD(self->own[0], d, G));
	ASSERT_CU(cuCtxSynchronize());
	EXPECT_TRUE(sees(self->own[0], 7, MIB));
	EXPECT_TRUE(sees(self->own[0] + MIB, 0, MIB));
	ASSERT_CU(cuMemUnmap(d, G));
	ASSERT_CU(cuMemAddressFree(d, G));
	ASSERT_CU(cuMemFreeHost((void *)word));
}

TEST_HARNESS_MAIN
