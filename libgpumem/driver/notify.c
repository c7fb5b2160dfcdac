// SPDX-License-Identifier: MIT
/*
 * Notifications of devices: callbacks of the program, which run when the process holds more of a device's
 * memory than its share. The kernel decides what the share is and when to notify
 * (Documentation/accounting.rst). The library reads notices from the client's file.
 *
 * Callbacks run in a thread of the library, one at a time. The first registration starts the thread, which
 * runs until the process ends or reading the client's file fails; after a failure the next registration
 * starts it again. A process that registers nothing has no such thread, and a forked child has none, because
 * the API is closed there. Callbacks may use the API, except for registering and unregistering.
 *
 * An excess lasts, but the kernel notifies of it once: a callback that is registered during an excess would
 * not run before another process is refused memory. The thread therefore calls such a callback once without
 * a notice. The registration is fresh until that call, or until a round calls the callback first.
 *
 * A registration is in the list until it is unregistered. Unregistering waits until the callback has
 * returned, so that the program may then free what the callback uses. A handle is compared with the list's
 * entries and never dereferenced, so a stale handle is an error. Registrations have rising numbers: a round
 * keeps the number that it has reached, and so continues correctly although the list changes.
 *
 * The first registration makes the client's file O_NONBLOCK: the thread waits in one poll() for the file and
 * for wake_fd, by which a registration announces a fresh entry.
 *
 * The thread pauses PAUSE_MS after each round. The kernel merges the notices of a device that arrive
 * meanwhile into one.
 *
 * Locks: notify_lock, for the list and the thread's state; not held while a callback runs.
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

#include "driver/driver.h"

#define PAUSE_MS	20

struct CUasyncCallbackEntry_st {
	CUasyncCallbackHandle next;
	uint64_t number;		/* rises with each; newest first in the list */
	CUdevice device;
	CUasyncCallback callback;
	void *data;
	bool fresh;			/* registered during an excess, callback not called yet; notify_lock */
};

static pthread_mutex_t notify_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t returned = PTHREAD_COND_INITIALIZER;
static CUasyncCallbackHandle entries;	/* notify_lock */
static CUasyncCallbackHandle notify_running;	/* the entry whose callback runs, or NULL; notify_lock */
static uint64_t last_number;		/* notify_lock */
static bool notify_started;		/* notify_lock */
static int wake_fd = -1;		/* readable: an entry is fresh; written once */
static __thread bool notifying;		/* the current thread is the one that runs callbacks */

/* The newest registration of a device that is older than a number. notify_lock is held. */
static CUasyncCallbackHandle entry_before(uint64_t number, CUdevice device)
{
	CUasyncCallbackHandle entry = entries;

	while (entry && (entry->number >= number || entry->device != device))
		entry = entry->next;
	return entry;
}

/* Call an entry's callback. The caller holds notify_lock, which the function drops while the callback runs. */
static void entry_call(CUasyncCallbackHandle entry, uint64_t bytes)
{
	CUasyncNotificationInfo info = { .type = CU_ASYNC_NOTIFICATION_TYPE_OVER_BUDGET };
	CUasyncCallback callback = entry->callback;
	void *data = entry->data;

	/* Each callback gets a structure of its own, because the structure is not const. */
	info.info.overBudget.bytesOverBudget = bytes;
	entry->fresh = false;
	notify_running = entry;
	pthread_mutex_unlock(&notify_lock);
	callback(&info, data, entry);
	pthread_mutex_lock(&notify_lock);
	notify_running = NULL;
	pthread_cond_broadcast(&returned);
}

/*
 * Call the callbacks of a device, newest first. Entries that are unregistered before their callback's turn are
 * skipped.
 */
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
		/* Another callback may have freed memory since. */
		bytes = client_excess(entry->device);
		if (bytes)
			entry_call(entry, bytes);
		else
			entry->fresh = false;
	}
	pthread_mutex_unlock(&notify_lock);
}

static const struct timespec between = { .tv_nsec = PAUSE_MS * 1000000 };

/*
 * Wait for a notice; false if reading fails. While there is no notice, call the callbacks of fresh entries. A
 * notice comes first, because its round may call them.
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
			/* The program closed the descriptor: fresh entries are not noticed from now on. */
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
		CUdevice device = device_of_index(notice.device);

		if (notice.type != GPUMEM_NOTICE_OVER_BUDGET || device == CU_DEVICE_INVALID)
			continue;
		round_run(device, notice.bytes);
		nanosleep(&between, NULL);
	}
	/* The next registration tries again. */
	pthread_mutex_lock(&notify_lock);
	notify_started = false;
	pthread_mutex_unlock(&notify_lock);
	return arg;
}

/*
 * Whether the module sends notices. If it does not, poll() reports a client's file as writable: NOT_SUPPORTED.
 * poll() itself fails only for want of memory.
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
static CUresult notify_start(void)
{
	CUresult result;

	if (notify_started)
		return CUDA_SUCCESS;
	result = kernel_notifies();
	if (result)
		return result;
	if (wake_fd < 0)
		wake_fd = fd_raise(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	/* Of the file's functions, O_NONBLOCK affects only read(). */
	if (wake_fd < 0 || fcntl(client.fd, F_SETFL, O_RDWR | O_NONBLOCK))
		return result_of_errno(errno);
	result = thread_make(notify_main, NULL, "gpumem-notify", 0);
	notify_started = !result;
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
	result = notify_start();
	if (!result) {
		entry->number = ++last_number;
		entry->next = entries;
		entries = entry;
		/* Stored under the lock, before the callback can run: the callback may read *handle. */
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
	/*
	 * From here on no other thread finds the entry. The thread that runs the entry's callback does
	 * not access the entry after the callback has returned.
	 */
	*link = handle->next;
	while (notify_running == handle)
		pthread_cond_wait(&returned, &notify_lock);
	pthread_mutex_unlock(&notify_lock);
	free(handle);
	return CUDA_SUCCESS;
}

/* notify_register() and notify_unregister() reach cancellation points with notify_lock held. */
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
 * cuDeviceRegisterAsyncNotification - have a function called when the process exceeds its share of memory
 * @device: the device whose memory is meant
 * @callback: runs in a thread of the library, with SIGSEGV and its like as the caller has them and
 *	all other signals blocked; it should return quickly. It may use the API, except for this function
 *	and cuDeviceUnregisterAsyncNotification(), which return NOT_PERMITTED in a callback
 * @user_data: passed to @callback
 * @handle: the registration, which is also passed to @callback; NULL on failure
 *
 * The callback receives the number of bytes above the share. It runs once when the process exceeds its share,
 * or at once if the process exceeds it already. It runs again when another process is refused memory because
 * of the excess.
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
 * @device: the device that @handle was registered for
 * @handle: the registration
 *
 * If the callback is running, waits until it returns: do not hold a lock that the callback takes.
 *
 * Return: INVALID_DEVICE; INVALID_VALUE for another handle; NOT_PERMITTED in a callback.
 */
CUresult cuDeviceUnregisterAsyncNotification(CUdevice device, CUasyncCallbackHandle handle)
{
	CALL(uncancelled_unregister(device, handle), device, handle);
}
