// SPDX-License-Identifier: MIT
/*
 * Notifications of devices: callbacks of the program that are told when the process holds more of a
 * device's memory than its share. What that is and when it is told, the kernel decides
 * (Documentation/accounting.rst); it is read from the client's file.
 *
 * Callbacks run in a thread of the library, one at a time. The thread is started with the first
 * registration and stays; there is none in a process that registers nothing, and none in a forked
 * child, where the API is closed. Callbacks may use the API, but for registering and unregistering.
 *
 * Having too much lasts, and a notification does not: a callback that is registered meanwhile would
 * wait for another process to be refused memory. So it is told once, and nobody else is: it is fresh
 * until then, or until a round comes first.
 *
 * A registration is in the list until it is unregistered. Unregistering waits until its callback has
 * returned, so that the program may then take away what the callback uses. A handle is looked for in
 * the list and never followed, so a stale one is an error. Registrations have numbers, by which a
 * round finds out how far it has come though the list changes.
 *
 * The client's file is O_NONBLOCK from then on, so that the thread waits for both in one place.
 *
 * At most one notification of a device every PAUSE_MS is delivered; what the kernel has to tell
 * meanwhile comes as one afterwards.
 *
 * Locks: notify_lock for all of it; not held while a callback runs.
 *
 * Vocabulary: round, the callbacks of one notification.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

#define PAUSE_MS	20

struct CUasyncCallbackEntry_st {
	CUasyncCallbackHandle next;
	uint64_t number;		/* rises with each; newest first in the list */
	CUdevice device;
	CUasyncCallback callback;
	void *data;
	bool fresh;			/* has to be told that there is too much; notify_lock */
};

static pthread_mutex_t notify_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t returned = PTHREAD_COND_INITIALIZER;
static CUasyncCallbackHandle entries;	/* notify_lock */
static CUasyncCallbackHandle running;	/* whose callback runs, or NULL; notify_lock */
static uint64_t last_number;		/* notify_lock */
static bool started;			/* notify_lock */
static int wake_fd = -1;		/* readable: an entry is fresh; written once */
static __thread bool notifying;		/* this is the thread that runs callbacks */

/* The newest registration of a device that is older than a number. notify_lock is held. */
static CUasyncCallbackHandle entry_before(uint64_t number, CUdevice device)
{
	CUasyncCallbackHandle entry = entries;

	while (entry && (entry->number >= number || entry->device != device))
		entry = entry->next;
	return entry;
}

/* notify_lock is held, but while the callback runs; then the entry may be gone. */
static void entry_call(CUasyncCallbackHandle entry, uint64_t bytes)
{
	CUasyncNotificationInfo info = { .type = CU_ASYNC_NOTIFICATION_TYPE_OVER_BUDGET };
	CUasyncCallback callback = entry->callback;
	void *data = entry->data;

	/* Each gets a structure of its own: it is not const. */
	info.info.overBudget.bytesOverBudget = bytes;
	entry->fresh = false;
	running = entry;
	pthread_mutex_unlock(&notify_lock);
	callback(&info, data, entry);
	pthread_mutex_lock(&notify_lock);
	running = NULL;
	pthread_cond_broadcast(&returned);
}

/* Call all callbacks of a device that are registered now, and still are when their turn comes. */
static void round_run(CUdevice device, uint64_t bytes)
{
	CUasyncCallbackHandle entry;
	uint64_t number;

	pthread_mutex_lock(&notify_lock);
	for (number = UINT64_MAX; (entry = entry_before(number, device));) {
		number = entry->number;
		entry_call(entry, bytes);
	}
	pthread_mutex_unlock(&notify_lock);
}

static CUasyncCallbackHandle entry_fresh(void)
{
	CUasyncCallbackHandle entry = entries;

	while (entry && !entry->fresh)
		entry = entry->next;
	return entry;
}

static void fresh_run(void)
{
	CUasyncCallbackHandle entry;
	uint64_t bytes;

	pthread_mutex_lock(&notify_lock);
	while ((entry = entry_fresh())) {
		/* What another callback gave back since is not too much any more. */
		bytes = client_excess(entry->device);
		if (bytes)
			entry_call(entry, bytes);
		else
			entry->fresh = false;
	}
	pthread_mutex_unlock(&notify_lock);
}

/* The visible device with an index in the client, or -1. */
static CUdevice device_of(unsigned int index)
{
	unsigned int i;

	for (i = 0; i < client.devices; i++)
		if (client.device[i].index == index)
			return i;
	return -1;
}

static const struct timespec between = { .tv_nsec = PAUSE_MS * 1000000 };

/*
 * Wait for a notice; false if none will come any more. Entries that are fresh meanwhile are told,
 * unless there is a notice, which may be for them.
 */
static bool notice_read(struct gpumem_notice *notice)
{
	struct pollfd poller[2] = {
		{ .fd = client.fd, .events = POLLIN }, { .fd = wake_fd, .events = POLLIN },
	};
	uint64_t count;
	ssize_t n;

	for (;;) {
		n = read(client.fd, notice, sizeof(*notice));
		if (n >= 0 || (errno != EAGAIN && errno != EINTR))
			return n == sizeof(*notice);
		if (poll(poller, 2, -1) < 0 && errno != EINTR)
			return false;
		if (poller[1].revents & ~POLLIN) {
			/* Somebody closed it: no entry is fresh any more. */
			poller[1].fd = -1;
		} else if (!poller[0].revents && poller[1].revents &&
			   read(wake_fd, &count, sizeof(count)) > 0) {
			fresh_run();
			nanosleep(&between, NULL);
		}
	}
}

static void *notify_main(void *arg)
{
	struct gpumem_notice notice;

	notifying = true;
	/* A callback could cancel the thread that runs it. */
	cancel_disable();
	while (notice_read(&notice)) {
		CUdevice device = device_of(notice.device);

		if (notice.type != GPUMEM_NOTICE_OVER_BUDGET || device < 0)
			continue;
		round_run(device, notice.bytes);
		nanosleep(&between, NULL);
	}
	/* The next registration tries again. */
	pthread_mutex_lock(&notify_lock);
	started = false;
	pthread_mutex_unlock(&notify_lock);
	return arg;
}

/*
 * A module that has nothing to be read from a client's file says that writing is possible:
 * NOT_SUPPORTED. poll() itself fails only for want of memory.
 */
static CUresult kernel_notifies(void)
{
	struct pollfd poller = { .fd = client.fd, .events = POLLOUT };

	while (poll(&poller, 1, 0) < 0)
		if (errno != EINTR)
			return CUDA_ERROR_OUT_OF_MEMORY;
	return poller.revents & POLLOUT ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

/* notify_lock is held. */
static CUresult thread_start(void)
{
	CUresult result;

	if (started)
		return CUDA_SUCCESS;
	result = kernel_notifies();
	if (result)
		return result;
	if (wake_fd < 0)
		wake_fd = fd_raise(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	/* Nothing but reading is concerned by this. */
	if (wake_fd < 0 || fcntl(client.fd, F_SETFL, O_RDWR | O_NONBLOCK))
		return result_of_errno(errno);
	result = thread_make(notify_main, NULL, "gpumem-notify");
	started = !result;
	return result;
}

static void wake(void)
{
	const uint64_t one = 1;

	while (write(wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

static CUresult notify_register(CUdevice device, CUasyncCallback callback, void *data,
				CUasyncCallbackHandle *handle)
{
	CUasyncCallbackHandle entry;
	CUresult result;

	if (notifying)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	*handle = NULL;
	if (!device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!callback)
		return CUDA_ERROR_INVALID_VALUE;
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return CUDA_ERROR_OUT_OF_MEMORY;
	entry->device = device;
	entry->callback = callback;
	entry->data = data;
	pthread_mutex_lock(&notify_lock);
	result = thread_start();
	if (!result) {
		entry->number = ++last_number;
		entry->next = entries;
		entries = entry;
		/* Under the lock: the callback may look for its handle there. */
		*handle = entry;
		entry->fresh = client_excess(device) != 0;
		if (entry->fresh)
			wake();
	}
	pthread_mutex_unlock(&notify_lock);
	if (result)
		free(entry);
	return result;
}

static CUresult notify_unregister(CUdevice device, CUasyncCallbackHandle handle)
{
	CUasyncCallbackHandle *link;

	if (notifying)
		return CUDA_ERROR_NOT_PERMITTED;
	if (!device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&notify_lock);
	for (link = &entries; *link; link = &(*link)->next)
		if (*link == handle && handle->device == device)
			break;
	if (!*link) {
		pthread_mutex_unlock(&notify_lock);
		return CUDA_ERROR_INVALID_VALUE;
	}
	/* From here on nobody else finds it; who runs it does not look at it again. */
	*link = handle->next;
	while (running == handle)
		pthread_cond_wait(&returned, &notify_lock);
	pthread_mutex_unlock(&notify_lock);
	free(handle);
	return CUDA_SUCCESS;
}

/* Both reach cancellation points with notify_lock held. */
static CUresult uncancelled_register(CUdevice device, CUasyncCallback callback, void *data,
				     CUasyncCallbackHandle *handle)
{
	int cancel = cancel_disable();
	CUresult result = notify_register(device, callback, data, handle);

	cancel_restore(cancel);
	return result;
}

static CUresult uncancelled_unregister(CUdevice device, CUasyncCallbackHandle handle)
{
	int cancel = cancel_disable();
	CUresult result = notify_unregister(device, handle);

	cancel_restore(cancel);
	return result;
}

/**
 * cuDeviceRegisterAsyncNotification - have a function called when the process has too much memory
 * @device: whose memory
 * @callback: runs in a thread of the library, with SIGSEGV and its like as the caller has them and
 *	all other signals blocked; it should return quickly and may use the API, but for this function
 *	and cuDeviceUnregisterAsyncNotification(): NOT_PERMITTED
 * @user_data: passed to it
 * @handle: the registration, which is passed to it, too; NULL on failure
 *
 * It is told by how many bytes the process is over its share, once when it comes to be, or at once
 * if it is, and again when another process gets no memory because of that.
 *
 * Needs no context. Return: INVALID_DEVICE, INVALID_VALUE, NOT_PERMITTED, OUT_OF_MEMORY,
 * NOT_SUPPORTED with a module that is too old.
 */
CUresult cuDeviceRegisterAsyncNotification(CUdevice device, CUasyncCallback callback,
					   void *user_data, CUasyncCallbackHandle *handle)
{
	CALL(uncancelled_register(device, callback, user_data, handle), device, callback, user_data,
	     handle);
}

/**
 * cuDeviceUnregisterAsyncNotification - end a registration
 * @device: as when it was registered
 * @handle: the registration
 *
 * Waits for its callback to return if that runs: do not hold a lock that the callback takes.
 *
 * Return: INVALID_DEVICE; INVALID_VALUE for what is not registered; NOT_PERMITTED in a callback.
 */
CUresult cuDeviceUnregisterAsyncNotification(CUdevice device, CUasyncCallbackHandle handle)
{
	CALL(uncancelled_unregister(device, handle), device, handle);
}
