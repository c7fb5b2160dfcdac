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
	int cancel, saved = errno, length;
	char line[256];
	va_list args;
	int fd;

	if (!list.log[0])
		return;
	va_start(args, format);
	length = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	if (length < 0 || length >= (int)sizeof(line))
		return;
	cancel = cancel_disable();
	fd = open(list.log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (fd >= 0) {
		/* Without the line, a reader misses one match. */
		(void)!write(fd, line, length);
		close(fd);
	}
	cancel_restore(cancel);
	errno = saved;
}

/* Say that a fault was injected. list_lock is held. */
static void report(const struct fault_rule *rule, const char *name, uint64_t match, const char *what)
{
	struct debug_line line = { .length = 0 };

	log_line("%d fault %s %llu %s\n", (int)getpid(), name, (unsigned long long)match, what);
	if (list.quiet)
		return;
	debug_add(&line, "gpumem-fault: %s(), match %llu of \"%s\": %s", name, (unsigned long long)match,
		  rule->calls, what);
	debug_print(&line);
}

/* Count what a rule did. list_lock is held. */
static void count(struct fault_rule *rule, bool done)
{
	unsigned int index = rule - list.rule;

	rule->done += done;
	if (!page)
		return;
	store_relaxed(&page->rule[index].seen, rule->seen);
	store_relaxed(&page->rule[index].done, rule->done);
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
	char text[FAULT_TEXT], why[128];
	struct fault_list fresh;
	uint32_t wanted;
	bool good;

	lock_take(&list_lock);
	wanted = load_acquire(&page->wanted);
	memcpy(text, page->text, sizeof(text));
	text[sizeof(text) - 1] = '\0';
	fence_acquire();
	/* The command is writing: take the list later. */
	if (wanted == taken || wanted % 2 || load_relaxed(&page->wanted) != wanted) {
		lock_drop(&list_lock);
		return;
	}
	good = fault_parse(&fresh, text, why, sizeof(why));
	if (good) {
		/* Other processes may write to the page, and must not choose a file. */
		memcpy(fresh.log, list.log, sizeof(fresh.log));
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

void fault_renew(void)
{
	if (page && unlikely(load_acquire(&page->wanted) != load_acquire(&taken)))
		list_renew();
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
	madvise(made, sizeof(*made), MADV_DONTFORK);
	/* The descriptor stays open: the command finds it. */
	made->version = 1;
	made->rules = list.rules;
	store_release(&made->magic, FAULT_MAGIC);
	page = made;
}

bool fault_start(void)
{
	const char *text = secure_getenv("GPUMEM_FAULT");
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
static bool bytes_of(const char *names, const struct debug_value *values, unsigned int count, uint64_t *bytes)
{
	static const char *const known[] = { "bytes", "size", "length" };
	unsigned int i, k;

	for (i = 0; i < count && *names; i++) {
		size_t length;

		names += strspn(names, " ,");
		length = strcspn(names, ",");
		/* An output is a pointer. */
		for (k = 0; values[i].kind == DEBUG_UNSIGNED && k < sizeof(known) / sizeof(known[0]); k++)
			if (strlen(known[k]) == length && !strncmp(names, known[k], length)) {
				*bytes = values[i].number;
				return true;
			}
		names += length;
	}
	return false;
}

/* Count a match of the rule. True: the rule applies to it. list_lock is held. */
static bool rule_applies(struct fault_rule *rule, const char *name)
{
	unsigned int index = rule - list.rule;
	uint64_t seen = ++rule->seen;
	bool applies = seen == rule->nth ||
		(seen > rule->nth && rule->every && (seen - rule->nth) % rule->every == 0);

	log_line("%d match %s %llu of rule %u\n", (int)getpid(), name, (unsigned long long)seen, index);
	if (applies && rule->chance != UINT32_MAX)
		applies = (uint32_t)fault_random(list.seed, (uint64_t)index << 48 | seen) < rule->chance;
	count(rule, false);
	return applies && rule->done < rule->times;
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

/* The call's operation is to misbehave: fault_done() reports it. list_lock is held. */
static void rule_later(const struct fault_rule *rule)
{
	fault_now.rule[rule->action] = rule - list.rule;
	fault_now.match[rule->action] = rule->seen;
	switch (rule->action) {
	case FAULT_DELAY:
		fault_now.delay = rule->value;
		break;
	case FAULT_TEAR:
		fault_now.pieces = rule->value;
		break;
	case FAULT_FLIP:
		fault_now.flip = fault_random(list.seed, rule->seen) | 1;
		break;
	default:
		fault_now.hang = true;
		break;
	}
}

void fault_done(enum fault_action action)
{
	static const char *const what[FAULT_ACTIONS] = {
		[FAULT_DELAY] = "begins late", [FAULT_TEAR] = "torn into pieces", [FAULT_FLIP] = "a bit flips",
		[FAULT_HANG] = "the stream hangs",
	};
	struct fault_rule *rule;

	lock_take(&list_lock);
	rule = &list.rule[fault_now.rule[action]];
	/* Otherwise the rules have changed. */
	if (fault_now.rule[action] < list.rules && rule->action == action) {
		report(rule, fault_now.name, fault_now.match[action], what[action]);
		count(rule, true);
	}
	lock_drop(&list_lock);
}

/* Carry out a rule at the beginning of a call. Returns the call's result, or 0. list_lock is held. */
static CUresult rule_run(struct fault_rule *rule, const char *name, bool *lost)
{
	CUresult error = rule->error ? rule->error : usual_error(name);

	switch (rule->action) {
	case FAULT_FAIL:
		report(rule, name, rule->seen, error_name(error));
		break;
	case FAULT_LOST:
		report(rule, name, rule->seen, "the context is lost");
		*lost = true;
		break;
	case FAULT_GONE:
		report(rule, name, rule->seen, "the device disappears");
		store_relaxed(&gone, error);
		break;
	case FAULT_DIE:
		report(rule, name, rule->seen, "the process is killed");
		kill(getpid(), SIGKILL);
		break;
	default:
		rule_later(rule);
		return CUDA_SUCCESS;
	}
	count(rule, true);
	return error;
}

CUresult fault_call(const char *name, const char *names, const struct debug_value *values, unsigned int count)
{
	CUresult result = CUDA_SUCCESS;
	bool lost = false, sized;
	uint64_t bytes = 0;
	unsigned int i;

	fault_renew();
	fault_now = (struct fault_now){ .name = name };
	if (unlikely(load_relaxed(&gone)))
		return load_relaxed(&gone);
	sized = bytes_of(names, values, count, &bytes);
	lock_take(&list_lock);
	/* Each rule counts the call, and the first one that lets it fail has its way. */
	for (i = 0; i < list.rules; i++)
		if (rule_matches(&list.rule[i], name, sized, bytes) && rule_applies(&list.rule[i], name) && !result)
			result = rule_run(&list.rule[i], name, &lost);
	lock_drop(&list_lock);
	if (unlikely(lost))
		client.hooks->lose(result);
	return result;
}

/* ---- memory */

bool fault_grow(uint64_t bytes)
{
	const char *name = fault_now.name ? fault_now.name : "?";
	bool refused = false;
	unsigned int i;

	if (likely(!client.faults))
		return false;
	lock_take(&list_lock);
	for (i = 0; !refused && i < list.rules; i++) {
		struct fault_rule *rule = &list.rule[i];

		if (rule->action != FAULT_GROW || bytes < rule->min || bytes > rule->max)
			continue;
		refused = rule_applies(rule, name);
		if (!refused)
			continue;
		report(rule, name, rule->seen, "the pool does not grow");
		count(rule, true);
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
