// SPDX-License-Identifier: GPL-2.0
/*
 * Cases of LLVM's liboffload that need no code for the device; "offload NAME" runs one.
 *
 * The library's CUDA plugin looks libcuda's functions up by name.  Devices here are those that the
 * plugin reports; host is liboffload's name for the machine's own memory.  A case ends at the first
 * call that does not do what it should, with a message and status 1.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <OffloadAPI.h>

#define MIB	(1UL << 20)
#define SIZE	(4 * MIB + 12)

static ol_device_handle_t device[8], host;
static unsigned int devices;

static void fail(int line, const char *what, ol_result_t r)
{
	fprintf(stderr, "line %d: %s: %s\n", line, what, r && r->Details ? r->Details : "");
	exit(1);
}

#define OK(call)							\
	do {								\
		ol_result_t r_ = (call);				\
		if (r_)							\
			fail(__LINE__, #call, r_);			\
	} while (0)

#define REFUSED(call)							\
	do {								\
		if (!(call))						\
			fail(__LINE__, #call " succeeded", NULL);	\
	} while (0)

#define TRUE(condition)							\
	do {								\
		if (!(condition))					\
			fail(__LINE__, #condition, NULL);		\
	} while (0)

static bool note_device(ol_device_handle_t d, void *unused)
{
	ol_platform_handle_t platform;
	ol_platform_backend_t backend;

	(void)unused;
	OK(olGetDeviceInfo(d, OL_DEVICE_INFO_PLATFORM, sizeof(platform), &platform));
	OK(olGetPlatformInfo(platform, OL_PLATFORM_INFO_BACKEND, sizeof(backend), &backend));
	if (backend == OL_PLATFORM_BACKEND_HOST)
		host = d;
	else if (backend == OL_PLATFORM_BACKEND_CUDA && devices < 8)
		device[devices++] = d;
	return true;
}

static unsigned char *pattern(unsigned int seed)
{
	unsigned char *p = malloc(SIZE);

	TRUE(p);
	for (size_t i = 0; i < SIZE; i++)
		p[i] = (unsigned char)((i * 2654435761u + seed) >> 13);
	return p;
}

static void case_devices(void)
{
	char name[128] = "";
	uint64_t total = 0;
	ol_device_type_t type;

	for (unsigned int i = 0; i < devices; i++) {
		OK(olGetDeviceInfo(device[i], OL_DEVICE_INFO_NAME, sizeof(name), name));
		TRUE(name[0]);
		OK(olGetDeviceInfo(device[i], OL_DEVICE_INFO_TYPE, sizeof(type), &type));
		TRUE(type == OL_DEVICE_TYPE_GPU);
		OK(olGetDeviceInfo(device[i], OL_DEVICE_INFO_GLOBAL_MEM_SIZE, sizeof(total), &total));
		TRUE(total >= 200 * MIB);
	}
}

static void case_kinds(void)
{
	static const ol_alloc_type_t kinds[] = { OL_ALLOC_TYPE_DEVICE, OL_ALLOC_TYPE_HOST,
						 OL_ALLOC_TYPE_MANAGED };
	unsigned char *want = pattern(1), *have = calloc(1, SIZE);

	for (int k = 0; k < 3; k++) {
		void *p;

		memset(have, 0, SIZE);
		OK(olMemAlloc(device[0], kinds[k], SIZE, &p));
		OK(olMemcpy(NULL, p, device[0], want, host, SIZE));
		OK(olMemcpy(NULL, have, host, p, device[0], SIZE));
		TRUE(!memcmp(want, have, SIZE));
		if (kinds[k] != OL_ALLOC_TYPE_DEVICE)
			TRUE(!memcmp(want, p, SIZE));
		OK(olMemFree(p));
	}
}

static void case_devices_between(void)
{
	unsigned char *want = pattern(2), *have = calloc(1, SIZE);
	ol_queue_handle_t queue;
	void *a, *b;

	OK(olMemAlloc(device[0], OL_ALLOC_TYPE_DEVICE, SIZE, &a));
	OK(olMemAlloc(device[1], OL_ALLOC_TYPE_DEVICE, SIZE, &b));
	OK(olCreateQueue(device[0], &queue));
	OK(olMemcpy(queue, a, device[0], want, host, SIZE));
	OK(olMemcpy(queue, b, device[1], a, device[0], SIZE));
	OK(olSyncQueue(queue));
	OK(olMemcpy(NULL, have, host, b, device[1], SIZE));
	TRUE(!memcmp(want, have, SIZE));
	OK(olDestroyQueue(queue));
	OK(olMemFree(a));
	OK(olMemFree(b));
}

static void case_queue(void)
{
	unsigned char *want = pattern(3), *have = calloc(1, SIZE);
	ol_queue_handle_t queue;
	bool empty = false;
	void *a, *b;

	OK(olCreateQueue(device[0], &queue));
	OK(olMemAlloc(device[0], OL_ALLOC_TYPE_DEVICE, SIZE, &a));
	OK(olMemAlloc(device[0], OL_ALLOC_TYPE_DEVICE, SIZE, &b));
	OK(olMemcpy(queue, a, device[0], want, host, SIZE));
	OK(olMemcpy(queue, b, device[0], a, device[0], SIZE));
	OK(olMemcpy(queue, have, host, b, device[0], SIZE));
	OK(olSyncQueue(queue));
	TRUE(!memcmp(want, have, SIZE));
	OK(olGetQueueInfo(queue, OL_QUEUE_INFO_EMPTY, sizeof(empty), &empty));
	TRUE(empty);
	OK(olDestroyQueue(queue));
	OK(olMemFree(a));
	OK(olMemFree(b));
}

static void case_fill(void)
{
	static const unsigned char bytes[16] = { 9, 8, 7, 6, 5, 4, 3, 2, 1, 10, 20, 30, 40, 50, 60, 70 };
	/* A size that each pattern divides. */
	const size_t size = 3 * 16 * 4096;
	unsigned char *have = malloc(size);
	ol_queue_handle_t queue;
	void *p;

	OK(olCreateQueue(device[0], &queue));
	OK(olMemAlloc(device[0], OL_ALLOC_TYPE_DEVICE, size, &p));
	for (size_t n = 1; n <= 16; n *= 2) {
		OK(olMemFill(queue, p, n, bytes, size));
		OK(olMemcpy(queue, have, host, p, device[0], size));
		OK(olSyncQueue(queue));
		for (size_t i = 0; i < size; i++)
			TRUE(have[i] == bytes[i % n]);
	}
	OK(olDestroyQueue(queue));
	OK(olMemFree(p));
}

static void case_memory_info(void)
{
	ol_alloc_type_t type;
	size_t size = 0;
	void *p, *base;

	OK(olMemAlloc(device[1], OL_ALLOC_TYPE_DEVICE, SIZE, &p));
	OK(olGetMemInfo(p, OL_MEM_INFO_SIZE, sizeof(size), &size));
	OK(olGetMemInfo((char *)p + 100, OL_MEM_INFO_BASE, sizeof(base), &base));
	OK(olGetMemInfo(p, OL_MEM_INFO_TYPE, sizeof(type), &type));
	TRUE(size == SIZE && base == p && type == OL_ALLOC_TYPE_DEVICE);
	OK(olMemFree(p));
	REFUSED(olGetMemInfo(p, OL_MEM_INFO_SIZE, sizeof(size), &size));
}

static void case_events(void)
{
	ol_queue_handle_t first, second;
	unsigned char *want = pattern(4), *have = calloc(1, SIZE);
	ol_event_handle_t event;
	bool complete = false;
	void *p;

	OK(olCreateQueue(device[0], &first));
	OK(olCreateQueue(device[0], &second));
	OK(olMemAlloc(device[0], OL_ALLOC_TYPE_DEVICE, SIZE, &p));
	OK(olMemcpy(first, p, device[0], want, host, SIZE));
	OK(olCreateEvent(first, &event));
	OK(olWaitEvents(second, &event, 1));
	OK(olMemcpy(second, have, host, p, device[0], SIZE));
	OK(olSyncQueue(second));
	TRUE(!memcmp(want, have, SIZE));
	OK(olSyncEvent(event));
	OK(olGetEventInfo(event, OL_EVENT_INFO_IS_COMPLETE, sizeof(complete), &complete));
	TRUE(complete);
	OK(olDestroyEvent(event));
	OK(olDestroyQueue(first));
	OK(olDestroyQueue(second));
	OK(olMemFree(p));
}

static void called(void *data)
{
	++*(int *)data;
}

static void case_host_function(void)
{
	ol_queue_handle_t queue;
	int calls = 0;

	OK(olCreateQueue(device[0], &queue));
	for (int i = 0; i < 100; i++)
		OK(olLaunchHostFunction(queue, called, &calls));
	OK(olSyncQueue(queue));
	TRUE(calls == 100);
	OK(olDestroyQueue(queue));
}

static void case_out_of_memory(void)
{
	void *p, *kept[64];
	int n = 0;

	REFUSED(olMemAlloc(device[0], OL_ALLOC_TYPE_DEVICE, 1UL << 42, &p));
	while (n < 64 && !olMemAlloc(device[0], OL_ALLOC_TYPE_DEVICE, 16 * MIB, &kept[n]))
		n++;
	TRUE(n > 4 && n < 64);
	while (n)
		OK(olMemFree(kept[--n]));
	OK(olMemAlloc(device[0], OL_ALLOC_TYPE_DEVICE, 16 * MIB, &p));
	OK(olMemFree(p));
}

/* Code for the device is refused by an error, and the device works afterwards. */
static void case_program(void)
{
	static const char ptx[] = ".version 7.0\n.target sm_80\n.address_size 64\n"
				  ".visible .entry nothing() { ret; }\n";
	ol_program_handle_t program;

	REFUSED(olCreateProgram(device[0], ptx, sizeof(ptx), &program));
	case_kinds();
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "devices", case_devices }, { "kinds", case_kinds },
	{ "devices_between", case_devices_between }, { "queue", case_queue }, { "fill", case_fill },
	{ "memory_info", case_memory_info }, { "events", case_events },
	{ "host_function", case_host_function }, { "out_of_memory", case_out_of_memory },
	{ "program", case_program },
};

int main(int argc, char **argv)
{
	if (argc != 2) {
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
			printf("  %s\n", cases[i].name);
		return 0;
	}
	OK(olInit());
	OK(olIterateDevices(note_device, NULL));
	if (devices != 2 || !host)
		fail(__LINE__, "two devices and the host", NULL);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (!strcmp(argv[1], cases[i].name)) {
			cases[i].run();
			OK(olShutDown());
			return 0;
		}
	}
	fail(__LINE__, "no such case", NULL);
}
