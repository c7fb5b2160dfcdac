// SPDX-License-Identifier: MIT
/*
 * Faults on demand: which rules match a call, and what they do.
 *
 * Owns the list of rules and the page through which `gpumem fault` changes it (fault_page.h). A process in whose
 * environment GPUMEM_FAULT is set has both, even if the variable is empty; others pay nothing.
 *
 * A rule counts the calls that match it. Whether it applies to its n-th match depends on n and the seed only, so a
 * program that makes its calls in the same order has the same faults.
 *
 * This file lets calls fail, kills the process, and refuses memory. The other faults are carried out where a call
 * submits its work (exec/schedule.c, copy/torn.c): fault_now tells what the rules want of the thread's call.
 *
 * Locks: list_lock for the list, inside all other locks. Only the counters of a rule change while calls run, until
 * the command writes a new list.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/core.h"

__thread struct fault_now fault_now __attribute__((tls_model("initial-exec")));

static struct lock list_lock;
static struct fault_list list;		/* list_lock */
static struct fault_page *page;		/* or NULL: constant once started */
static uint32_t taken;			/* page->wanted of the list; list_lock to write; atomic */
static CUresult gone;			/* the device has disappeared: what calls return; atomic */

uint64_t fault_random(uint64_t seed, uint64_t index)
{
	uint64_t x = seed * 0x9e3779b97f4a7c15ull + index * 0xd1b54a32d192ed03ull;

	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9ull;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/* ---- reports */

/* Add a line to the log, which is shared by all processes of a run. list_lock is held. */
static void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void log_line(const char *format, ...)
{
	char line[256];
	va_list args;
	int fd, length;

	if (!list.log[0])
		return;
	fd = open(list.log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (fd < 0)
		return;
	va_start(args, format);
	length = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	if (length > 0 && write(fd, line, length) < 0)
		errno = 0;
	close(fd);
}

/* Say that a fault was injected. list_lock is held. */
static void report(const struct fault_rule *rule, const char *name, const char *what)
{
	struct debug_line line = { .length = 0 };

	log_line("%d fault %s %llu %s\n", (int)getpid(), name, (unsigned long long)rule->seen, what);
	if (list.quiet)
		return;
	debug_add(&line, "gpumem-fault: %s(), match %llu of \"%s\": %s", name, (unsigned long long)rule->seen,
		  rule->calls, what);
	debug_print(&line);
}

/* The end of the process: what each rule saw. */
static __attribute__((destructor)) void finish(void)
{
	unsigned int i;

	/* A forked child is no user of the device, and its copy of the lock may be taken. */
	if (!client.faults || not_initialized() || !lock_try(&list_lock))
		return;
	for (i = 0; i < list.rules; i++)
		log_line("%d rule %u seen %llu done %llu\n", (int)getpid(), i,
			 (unsigned long long)list.rule[i].seen, (unsigned long long)list.rule[i].done);
	lock_drop(&list_lock);
}

/* ---- the list */

static void list_refused(const char *text, const char *why)
{
	struct debug_line line = { .length = 0 };

	debug_add(&line, "gpumem-fault: the rules \"%.200s\" are wrong: %s", text, why);
	debug_print(&line);
}

/* Obey the list of the page, if the command has written a new one. */
static __attribute__((noinline)) void list_renew(void)
{
	struct fault_list fresh;
	char text[FAULT_TEXT], why[128];
	uint32_t wanted;
	bool good;

	lock_take(&list_lock);
	wanted = load_acquire(&page->wanted);
	if (wanted == taken) {
		lock_drop(&list_lock);
		return;
	}
	memcpy(text, page->text, sizeof(text));
	text[sizeof(text) - 1] = '\0';
	good = fault_parse(&fresh, text, why, sizeof(why));
	if (good) {
		list = fresh;
		memset(page->rule, 0, sizeof(page->rule));
		store_relaxed(&page->rules, list.rules);
		store_relaxed(&gone, CUDA_SUCCESS);
	} else {
		store_relaxed(&page->refused, wanted);
	}
	store_release(&taken, wanted);
	store_release(&page->taken, wanted);
	lock_drop(&list_lock);
	if (good)
		client.hooks->resume();
	else
		list_refused(text, why);
}

/* The page is a convenience: without it the rules of the environment apply all the same. */
static void page_make(void)
{
	int fd = memfd_create(FAULT_MEMFD, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct fault_page *made;

	if (fd < 0)
		return;
	fd = fd_raise(fd);
	if (fd < 0)
		return;
	/* No other process may shrink the file: the next access to the page would end this one. */
	if (ftruncate(fd, sizeof(*made)) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
		close(fd);
		return;
	}
	made = mmap(NULL, sizeof(*made), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (made == MAP_FAILED) {
		close(fd);
		return;
	}
	/* The descriptor stays open: the command finds it. */
	made->version = 1;
	made->rules = list.rules;
	store_release(&made->magic, FAULT_MAGIC);
	page = made;
}

bool fault_start(void)
{
	const char *text = getenv("GPUMEM_FAULT");
	char why[128];

	if (!text)
		return false;
	if (!fault_parse(&list, text, why, sizeof(why))) {
		list_refused(text, why);
		list.rules = 0;
	}
	page_make();
	return true;
}

/* ---- calls */

/* The number of bytes that a call names, as far as one argument has it. */
static bool bytes_of(const char *names, const uint64_t *values, unsigned int count, uint64_t *bytes)
{
	static const char *const known[] = { "bytes", "size", "length" };
	unsigned int i, k;

	for (i = 0; i < count && *names; i++) {
		size_t length;

		names += strspn(names, " ,");
		length = strcspn(names, ",");
		for (k = 0; k < sizeof(known) / sizeof(known[0]); k++)
			if (strlen(known[k]) == length && !strncmp(names, known[k], length)) {
				*bytes = values[i];
				return true;
			}
		names += length;
	}
	return false;
}

/* Count a match of the rule. True: the rule applies to it. list_lock is held. */
static bool rule_applies(struct fault_rule *rule)
{
	unsigned int index = rule - list.rule;
	uint64_t seen = ++rule->seen;
	bool applies = seen == rule->nth ||
		(seen > rule->nth && rule->every && (seen - rule->nth) % rule->every == 0);

	if (applies && rule->chance != UINT32_MAX)
		applies = (uint32_t)fault_random(list.seed, (uint64_t)index << 48 | seen) < rule->chance;
	applies &= rule->done < rule->times;
	rule->done += applies;
	if (page) {
		store_relaxed(&page->rule[index].seen, rule->seen);
		store_relaxed(&page->rule[index].done, rule->done);
	}
	return applies;
}

static bool rule_matches(const struct fault_rule *rule, const char *name, bool sized, uint64_t bytes)
{
	if (rule->action == FAULT_GROW || rule->action == FAULT_MEMORY)
		return false;
	if ((rule->min || rule->max != UINT64_MAX) && (!sized || bytes < rule->min || bytes > rule->max))
		return false;
	return fault_names(rule->calls, name);
}

/* The result of a call that a rule lets fail, by default. */
static CUresult usual_error(const char *name)
{
	return fault_names("ipc", name) ? CUDA_ERROR_MAP_FAILED : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Carry out a rule at the beginning of a call. Returns the call's result, or 0. list_lock is held. */
static CUresult rule_run(const struct fault_rule *rule, const char *name, bool *lost)
{
	CUresult error = rule->error ? rule->error : usual_error(name);

	switch (rule->action) {
	case FAULT_FAIL:
		report(rule, name, error_name(error));
		return error;
	case FAULT_LOST:
		report(rule, name, "the context is lost");
		*lost = true;
		return error;
	case FAULT_GONE:
		report(rule, name, "the device disappears");
		store_relaxed(&gone, error);
		return error;
	case FAULT_DIE:
		report(rule, name, "the process is killed");
		kill(getpid(), SIGKILL);
		return error;
	case FAULT_DELAY:
		report(rule, name, "begins late");
		fault_now.delay = rule->value;
		return CUDA_SUCCESS;
	case FAULT_TEAR:
		report(rule, name, "torn into pieces");
		fault_now.pieces = rule->value;
		return CUDA_SUCCESS;
	case FAULT_FLIP:
		report(rule, name, "a bit flips");
		fault_now.flip = fault_random(list.seed, rule->seen) | 1;
		return CUDA_SUCCESS;
	case FAULT_HANG:
		report(rule, name, "the stream hangs");
		fault_now.hang = true;
		return CUDA_SUCCESS;
	case FAULT_GROW:
	case FAULT_MEMORY:
		break;
	}
	return CUDA_SUCCESS;
}

CUresult fault_call(const char *name, const char *names, const uint64_t *values, unsigned int count)
{
	CUresult result = CUDA_SUCCESS;
	bool lost = false, sized;
	uint64_t bytes = 0;
	unsigned int i;

	if (page && unlikely(load_acquire(&page->wanted) != load_acquire(&taken)))
		list_renew();
	fault_now = (struct fault_now){ .name = name };
	if (not_initialized())
		return CUDA_SUCCESS;
	if (unlikely(load_relaxed(&gone)))
		return load_relaxed(&gone);
	sized = bytes_of(names, values, count, &bytes);
	lock_take(&list_lock);
	for (i = 0; !result && i < list.rules; i++)
		if (rule_matches(&list.rule[i], name, sized, bytes) && rule_applies(&list.rule[i]))
			result = rule_run(&list.rule[i], name, &lost);
	lock_drop(&list_lock);
	if (unlikely(lost))
		client.hooks->lose(result);
	return result;
}

/* ---- memory */

bool fault_grow(uint64_t bytes)
{
	bool refused = false;
	unsigned int i;

	if (likely(!client.faults))
		return false;
	lock_take(&list_lock);
	for (i = 0; !refused && i < list.rules; i++) {
		struct fault_rule *rule = &list.rule[i];

		if (rule->action != FAULT_GROW || bytes < rule->min || bytes > rule->max)
			continue;
		refused = rule_applies(rule);
		if (refused)
			report(rule, fault_now.name ? fault_now.name : "?", "the pool does not grow");
	}
	lock_drop(&list_lock);
	return refused;
}

uint64_t fault_memory(CUdevice device, uint64_t total)
{
	unsigned int i;

	if (likely(!client.faults))
		return total;
	lock_take(&list_lock);
	for (i = 0; i < list.rules; i++) {
		const struct fault_rule *rule = &list.rule[i];

		if (rule->action == FAULT_MEMORY && (rule->device < 0 || rule->device == device))
			total = min_u64(total, rule->value);
	}
	lock_drop(&list_lock);
	return total;
}

bool fault_alloc(CUdevice device, uint64_t bytes)
{
	uint64_t free_bytes;

	if (likely(!client.faults) || fault_memory(device, UINT64_MAX) == UINT64_MAX)
		return false;
	return !client_free_bytes(device, &free_bytes) && free_bytes < bytes;
}
