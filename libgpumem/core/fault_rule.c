// SPDX-License-Identifier: MIT
/*
 * The rules of GPUMEM_FAULT and `gpumem fault`, as text.
 *
 * A list is rules separated by ';' or line ends. A rule is an action and words key=value. What a rule does not say
 * has the default of defaults(). "seed=N", "log=FILE", "quiet" and "env=NAME:VALUE" stand alone, and concern the
 * whole list.
 */
#include <errno.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/core.h"

#define LEAST_CODE	1
#define MOST_CODE	999
#define MOST_MS		3600000u
#define MOST_PIECES	64u

static const char *const actions[] = {
	[FAULT_FAIL] = "fail", [FAULT_LOST] = "lost", [FAULT_GONE] = "gone", [FAULT_DIE] = "die",
	[FAULT_DELAY] = "delay", [FAULT_TEAR] = "tear", [FAULT_FLIP] = "flip", [FAULT_HANG] = "hang",
	[FAULT_GROW] = "grow", [FAULT_MEMORY] = "memory",
};

/* Kinds of functions, and the patterns that they stand for. */
static const struct {
	const char *kind, *patterns;
} kinds[] = {
	{ "alloc", "cuMemAlloc*|cuMemHostAlloc|cuMemCreate|cuArrayCreate*|cuArray3DCreate*|cuMipmappedArrayCreate*" },
	{ "device", "cuMemAlloc|cuMemAllocPitch|cuMemCreate|cuArrayCreate|cuArray3DCreate|cuMipmappedArrayCreate" },
	{ "host", "cuMemAllocHost|cuMemHostAlloc|cuMemHostRegister" },
	{ "managed", "cuMemAllocManaged" },
	{ "pool", "cuMemAllocAsync|cuMemAllocFromPoolAsync" },
	{ "create", "cuStreamCreate*|cuEventCreate*|cuMemPoolCreate*|cuCtxCreate*|cuDevicePrimaryCtxRetain|"
		    "cuMemAddressReserve|cuMemMap|cuMemHostRegister*" },
	{ "ipc", "cuIpcOpen*|cuMemPoolImport*|cuMemImportFromShareableHandle|cuImportExternal*" },
	{ "copy", "cuMemcpy*" },
	{ "fill", "cuMemset*" },
	{ "wait", "cuStreamSynchronize|cuEventSynchronize|cuCtxSynchronize*" },
	{ "any", "*" },
};

static bool wrong(char *why, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static bool wrong(char *why, size_t size, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why, size, format, args);
	va_end(args);
	return false;
}

/* ---- names */

/* A function's name without the suffix of its form. */
static void plain_name(char *to, size_t size, const char *name)
{
	char *end;

	snprintf(to, size, "%s", name);
	for (;;) {
		end = strrchr(to, '_');
		if (!end || (strcmp(end, "_ptds") && strcmp(end, "_ptsz") &&
			     !(end[1] == 'v' && end[2] >= '2' && end[2] <= '9' && !end[3])))
			return;
		*end = '\0';
	}
}

static const char *kind_patterns(const char *word)
{
	size_t i;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(kinds[i].kind, word))
			return kinds[i].patterns;
	return NULL;
}

/* Whether one of the words of a list matches. */
static bool patterns_match(const char *list, const char *name, const char *plain, bool kinds_too)
{
	char copy[256], *rest = copy, *word;

	snprintf(copy, sizeof(copy), "%s", list);
	while ((word = strsep(&rest, "|"))) {
		const char *patterns = kinds_too ? kind_patterns(word) : NULL;

		if (patterns ? patterns_match(patterns, name, plain, false) :
		    !fnmatch(word, plain, 0) || !fnmatch(word, name, 0))
			return true;
	}
	return false;
}

bool fault_names(const char *names, const char *function)
{
	char plain[64];

	plain_name(plain, sizeof(plain), function);
	return patterns_match(names, function, plain, true);
}

/* ---- values */

static bool number_of(const char *text, uint64_t *number)
{
	static const char units[] = "KMGT";
	const char *unit;
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*number = strtoull(text, &end, 0);
	if (errno)
		return false;
	unit = *end ? strchr(units, *end) : NULL;
	if (unit) {
		if (__builtin_mul_overflow(*number, 1ull << (10 * (unit - units + 1)), number))
			return false;
		end++;
	}
	return !*end;
}

static bool chance_of(const char *text, uint32_t *chance)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value >= 0 && value <= 1))
		return false;
	*chance = value * UINT32_MAX;
	return true;
}

/* A code by its number or its name, with or without the prefix. */
static bool code_of(const char *text, CUresult *code)
{
	static const char prefix[] = "CUDA_ERROR_";
	uint64_t number;
	int i;

	if (number_of(text, &number)) {
		*code = (CUresult)number;
		return number >= LEAST_CODE && number <= MOST_CODE && error_name(*code);
	}
	for (i = LEAST_CODE; i <= MOST_CODE; i++) {
		const char *name = error_name((CUresult)i);

		if (name && (!strcmp(name, text) ||
			     (!strncmp(name, prefix, sizeof(prefix) - 1) && !strcmp(name + sizeof(prefix) - 1, text)))) {
			*code = (CUresult)i;
			return true;
		}
	}
	return false;
}

/* ---- rules */

static void defaults(struct fault_rule *rule, enum fault_action action)
{
	static const struct {
		const char *calls;
		CUresult error;
		uint64_t value;
	} by_action[] = {
		[FAULT_FAIL] = { "alloc", 0, 0 },
		[FAULT_LOST] = { "any", CUDA_ERROR_ILLEGAL_ADDRESS, 0 },
		/* As this library answers calls once its device has been unbound. */
		[FAULT_GONE] = { "any", CUDA_ERROR_NOT_INITIALIZED, 0 },
		[FAULT_DIE] = { "any", 0, 0 },
		[FAULT_DELAY] = { "copy|fill", 0, 10 },
		[FAULT_TEAR] = { "copy", 0, 4 },
		[FAULT_FLIP] = { "copy", 0, 0 },
		[FAULT_HANG] = { "copy|fill", 0, 0 },
		[FAULT_GROW] = { "any", CUDA_ERROR_OUT_OF_MEMORY, 0 },
		[FAULT_MEMORY] = { "any", CUDA_ERROR_OUT_OF_MEMORY, 0 },
	};

	*rule = (struct fault_rule){
		.action = action, .max = UINT64_MAX, .nth = 1, .times = UINT64_MAX, .chance = UINT32_MAX,
		.error = by_action[action].error, .value = by_action[action].value, .device = -1,
	};
	snprintf(rule->calls, sizeof(rule->calls), "%s", by_action[action].calls);
}

/* Which keys a rule has, as far as their defaults depend on it. */
struct given {
	bool every, chance;
};

/* Whether an action has a key. */
static bool action_has(enum fault_action action, const char *key)
{
	static const char *const own[FAULT_ACTIONS] = {
		[FAULT_FAIL] = "error", [FAULT_LOST] = "error", [FAULT_GONE] = "error", [FAULT_DELAY] = "ms",
		[FAULT_TEAR] = "pieces",
	};

	if (action == FAULT_MEMORY)
		return !strcmp(key, "size") || !strcmp(key, "device");
	if (!strcmp(key, "call"))
		return action != FAULT_GROW;
	if (!strcmp(key, "error") || !strcmp(key, "ms") || !strcmp(key, "pieces"))
		return own[action] && !strcmp(own[action], key);
	return !strcmp(key, "min") || !strcmp(key, "max") || !strcmp(key, "nth") || !strcmp(key, "every") ||
		!strcmp(key, "times") || !strcmp(key, "p");
}

/* One key=value of a rule. */
static bool word_of(struct fault_rule *rule, struct given *given, const char *key, const char *value, char *why,
		    size_t size)
{
	uint64_t number = 0;
	bool right = number_of(value, &number);

	if (!action_has(rule->action, key))
		return wrong(why, size, "\"%s\" has no key \"%s\"", actions[rule->action], key);
	if (!strcmp(key, "call")) {
		right = *value && strlen(value) < sizeof(rule->calls);
		snprintf(rule->calls, sizeof(rule->calls), "%s", value);
	} else if (!strcmp(key, "min")) {
		rule->min = number;
	} else if (!strcmp(key, "max")) {
		rule->max = number;
	} else if (!strcmp(key, "nth")) {
		rule->nth = number;
		right &= number != 0;
	} else if (!strcmp(key, "every")) {
		rule->every = number;
		given->every = true;
		right &= number != 0;
	} else if (!strcmp(key, "times")) {
		rule->times = number;
	} else if (!strcmp(key, "p")) {
		right = chance_of(value, &rule->chance);
		given->chance = true;
	} else if (!strcmp(key, "error")) {
		right = code_of(value, &rule->error);
	} else if (!strcmp(key, "ms")) {
		rule->value = number;
		right &= number <= MOST_MS;
	} else if (!strcmp(key, "pieces")) {
		rule->value = number;
		right &= number >= 2 && number <= MOST_PIECES;
	} else if (!strcmp(key, "size")) {
		rule->value = number;
		right &= number != 0;
	} else {
		rule->device = (CUdevice)number;
		right &= number < GPUMEM_MAX_DEVICES;
	}
	return right || wrong(why, size, "\"%s\" is not a value of \"%s\"", value, key);
}

static bool rule_of(struct fault_list *list, char *text, char *why, size_t size)
{
	struct given given = { 0 };
	char *rest = text, *word = strsep(&rest, " \t");
	struct fault_rule *rule;
	size_t action;

	for (action = 0; action < sizeof(actions) / sizeof(actions[0]); action++)
		if (!strcmp(actions[action], word))
			break;
	if (action == sizeof(actions) / sizeof(actions[0]))
		return wrong(why, size, "\"%s\" is not an action", word);
	if (list->rules == FAULT_RULES)
		return wrong(why, size, "more than %u rules", FAULT_RULES);
	rule = &list->rule[list->rules++];
	defaults(rule, (enum fault_action)action);
	while ((word = strsep(&rest, " \t"))) {
		char *value = word;
		const char *key = strsep(&value, "=");

		if (!*key)
			continue;
		if (!value)
			return wrong(why, size, "\"%s\" is not key=value", key);
		if (!word_of(rule, &given, key, value, why, size))
			return false;
	}
	if (rule->action == FAULT_MEMORY && !rule->value)
		return wrong(why, size, "\"memory\" needs size=");
	if (rule->min > rule->max)
		return wrong(why, size, "min is above max");
	/* A rule that says neither how often nor how probable applies once; limits of memory always do. */
	if (!given.every)
		rule->every = given.chance || rule->action == FAULT_GROW ? 1 : 0;
	return true;
}

static bool env_matches(const char *text)
{
	char name[64];
	const char *value = strchr(text, ':'), *is;

	if (!value || value - text >= (ptrdiff_t)sizeof(name))
		return false;
	snprintf(name, sizeof(name), "%.*s", (int)(value - text), text);
	is = getenv(name);
	return is && !strcmp(is, value + 1);
}

bool fault_parse(struct fault_list *list, const char *text, char *why, size_t size)
{
	char copy[FAULT_TEXT], *rest = copy, *line;
	bool here = true;

	memset(list, 0, sizeof(*list));
	list->seed = 1;
	if (strlen(text) >= sizeof(copy))
		return wrong(why, size, "longer than %u bytes", FAULT_TEXT - 1);
	memcpy(copy, text, strlen(text) + 1);
	while ((line = strsep(&rest, ";\n"))) {
		size_t end;

		line += strspn(line, " \t");
		for (end = strlen(line); end && (line[end - 1] == ' ' || line[end - 1] == '\t'); end--)
			line[end - 1] = '\0';
		if (!*line)
			continue;
		if (!strncmp(line, "seed=", 5)) {
			if (!number_of(line + 5, &list->seed))
				return wrong(why, size, "\"%s\" is not a number", line + 5);
		} else if (!strncmp(line, "log=", 4)) {
			if (!line[4] || strlen(line + 4) >= sizeof(list->log))
				return wrong(why, size, "log= needs the path of a file");
			snprintf(list->log, sizeof(list->log), "%s", line + 4);
		} else if (!strncmp(line, "env=", 4)) {
			here &= env_matches(line + 4);
		} else if (!strcmp(line, "quiet")) {
			list->quiet = true;
		} else if (!rule_of(list, line, why, size)) {
			return false;
		}
	}
	if (!here) {
		list->rules = 0;
		list->log[0] = '\0';
	}
	return true;
}
