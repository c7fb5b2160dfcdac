// SPDX-License-Identifier: MIT
/*
 * Reports: to people on standard error or in a file, and to CI as JSON or SARIF.
 *
 * A report is printed once for each pair of its first two stacks. Its first line, and no other line, begins with
 * "gpumem-check:". After REPORTS_MOST reports, the checker counts only.
 *
 * Suppressions (GPUMEM_CHECK_SUPPRESSIONS): lines "kind:pattern". A report of this kind ("*": any) is suppressed if
 * the pattern matches a function, file or object of one of its stacks.
 */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <jansson.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check/check.h"

#define REPORTS_MOST	200u
#define FRAMES_SHOWN	12u

static const struct {
	const char *id, *text;
} kinds[] = {
	[REPORT_RACE] = { "race", "Two operations on the same bytes are not ordered, and one of them writes." },
	[REPORT_BEFORE_ALLOC] = { "use-before-allocation", "Memory is used before its allocation's point." },
	[REPORT_FREE_UNORDERED] = { "unordered-free", "Memory is freed in a stream that does not come after its last use." },
	[REPORT_USE_AFTER_FREE] = { "use-after-free", "Memory is used after it was freed." },
	[REPORT_OUT_OF_BOUNDS] = { "out-of-bounds", "An operation extends beyond its memory." },
	[REPORT_DOUBLE_FREE] = { "double-free", "Memory is freed twice." },
	[REPORT_INVALID_FREE] = { "invalid-free", "An address that is no allocation is freed." },
	[REPORT_UNMAP] = { "unordered-unmap", "A mapping is removed while work that uses it may run." },
	[REPORT_NO_ACCESS] = { "no-access", "A device has no access to memory of a pool." },
	[REPORT_INVALID_HANDLE] = { "invalid-handle", "A stream or an event is used after it was destroyed." },
	[REPORT_WRONG_CONTEXT] = { "wrong-context", "An event and a stream belong to different contexts." },
	[REPORT_UNINITIALIZED] = { "uninitialized", "A copy reads bytes that nobody wrote." },
	[REPORT_LEAK] = { "leak", "The program did not give something back." },
	[REPORT_HOST_WRITE] = { "host-write", "The CPU changed pinned memory while queued work read it." },
	[REPORT_HOST_UNMAPPED] = { "host-unmapped", "Pinned or registered memory was unmapped." },
};

struct seen {
	uint64_t key;
	struct seen *next;
};

struct suppression {
	char *kind, *pattern;
	struct suppression *next;
};

static struct seen *seen;
static struct suppression *suppressions;
static bool suppressions_read;
static unsigned int reports, shown;
static json_t *documents;		/* reports, for JSON and SARIF */

/* ---- lines */

struct text {
	char *bytes;
	size_t length, room;
};

static void add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct text *text, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (n < 0)
		return;
	if (text->length + n + 1 > text->room) {
		size_t room = 2 * (text->length + n + 1);
		char *more = realloc(text->bytes, room);

		if (!more)
			return;
		text->bytes = more;
		text->room = room;
	}
	va_start(args, format);
	vsnprintf(text->bytes + text->length, n + 1, format, args);
	va_end(args);
	text->length += n;
}

/* A reader that has gone must not end the program. */
static void print(int fd, const struct text *text)
{
	const struct timespec now = { .tv_sec = 0 };
	sigset_t pipe, old, pending;
	size_t done = 0;
	ssize_t n;

	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipe, &old);
	sigpending(&pending);
	while (done < text->length) {
		n = write(fd, text->bytes + done, text->length - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EPIPE && !sigismember(&pending, SIGPIPE))
			sigtimedwait(&pipe, NULL, &now);
		if (n <= 0)
			break;
		done += n;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* ---- the parts of a report */

void report_begin(struct report *report, enum report_kind kind, const char *format, ...)
{
	va_list args;

	report->kind = kind;
	report->detail[0] = '\0';
	report->stacks = 0;
	va_start(args, format);
	vsnprintf(report->title, sizeof(report->title), format, args);
	va_end(args);
}

void report_detail(struct report *report, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(report->detail, sizeof(report->detail), format, args);
	va_end(args);
}

void report_stack(struct report *report, const struct stack *stack, const char *format, ...)
{
	struct report_stack *part = &report->stack[report->stacks];
	va_list args;

	if (report->stacks == sizeof(report->stack) / sizeof(report->stack[0]))
		return;
	report->stacks++;
	part->stack = stack;
	va_start(args, format);
	vsnprintf(part->title, sizeof(part->title), format, args);
	va_end(args);
}

/* ---- suppressions */

static void read_suppressions(void)
{
	const char *path = getenv("GPUMEM_CHECK_SUPPRESSIONS");
	char line[512];
	FILE *file;

	suppressions_read = true;
	file = path ? fopen(path, "re") : NULL;
	if (path && !file)
		dprintf(STDERR_FILENO, "gpumem: GPUMEM_CHECK_SUPPRESSIONS: cannot read %s\n", path);
	while (file && fgets(line, sizeof(line), file)) {
		struct suppression *one;
		char *colon = strchr(line, ':');

		line[strcspn(line, "\n")] = '\0';
		if (line[0] == '#' || !colon)
			continue;
		*colon = '\0';
		one = calloc(1, sizeof(*one));
		if (!one)
			break;
		one->kind = strdup(line);
		one->pattern = strdup(colon + 1);
		one->next = suppressions;
		suppressions = one;
	}
	if (file)
		fclose(file);
}

static bool matches(const struct frame *frame, void *arg)
{
	struct suppression *one = arg;
	const char *texts[] = { frame->function, frame->file, frame->object };
	unsigned int i;

	for (i = 0; i < 3; i++)
		if (texts[i] && !fnmatch(one->pattern, texts[i], 0)) {
			one->kind = NULL;
			return false;
		}
	return true;
}

static bool suppressed(const struct report *report)
{
	const struct suppression *one;
	unsigned int i;

	if (!suppressions_read)
		read_suppressions();
	for (one = suppressions; one; one = one->next) {
		if (!one->kind || !one->pattern ||
		    (strcmp(one->kind, "*") && strcmp(one->kind, kinds[report->kind].id)))
			continue;
		for (i = 0; i < report->stacks; i++) {
			struct suppression found = *one;

			stack_walk(report->stack[i].stack, matches, &found);
			if (!found.kind)
				return true;
		}
	}
	return false;
}

/* ---- text */

struct frames {
	struct text *text;
	json_t *list;
	unsigned int count;
};

static const char *last_part(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	return slash ? slash + 1 : path;
}

static bool add_text_frame(const struct frame *frame, void *arg)
{
	struct frames *frames = arg;

	add(frames->text, "    #%u %s", frames->count, frame->function ? frame->function : "?");
	if (frame->file)
		add(frames->text, " %s:%d", frame->file, frame->line);
	else if (frame->object)
		add(frames->text, " (%s+0x%llx)", last_part(frame->object), (unsigned long long)frame->address);
	add(frames->text, "\n");
	return ++frames->count < FRAMES_SHOWN && !(frame->function && !strcmp(frame->function, "main"));
}

static void print_text(const struct report *report, int fd, bool colour)
{
	struct text text = { .bytes = NULL };
	unsigned int i;

	add(&text, "gpumem-check: %s%s: %s%s\n", colour ? "\033[1;31m" : "", kinds[report->kind].id, report->title,
	    colour ? "\033[0m" : "");
	if (report->detail[0])
		add(&text, "  %s\n", report->detail);
	for (i = 0; i < report->stacks; i++) {
		struct frames frames = { .text = &text };

		add(&text, "  %s%s\n", report->stack[i].title, report->stack[i].stack ? ":" : "");
		stack_walk(report->stack[i].stack, add_text_frame, &frames);
	}
	print(fd, &text);
	free(text.bytes);
}

/* ---- JSON and SARIF */

static bool add_json_frame(const struct frame *frame, void *arg)
{
	struct frames *frames = arg;
	json_t *one = json_object();

	if (frame->function)
		json_object_set_new(one, "function", json_string(frame->function));
	if (frame->file) {
		json_object_set_new(one, "file", json_string(frame->file));
		json_object_set_new(one, "line", json_integer(frame->line));
	}
	if (frame->object)
		json_object_set_new(one, "object", json_string(frame->object));
	json_array_append_new(frames->list, one);
	return ++frames->count < FRAMES_SHOWN && !(frame->function && !strcmp(frame->function, "main"));
}

static json_t *report_json(const struct report *report)
{
	json_t *one = json_object(), *stacks = json_array();
	unsigned int i;

	json_object_set_new(one, "kind", json_string(kinds[report->kind].id));
	json_object_set_new(one, "message", json_string(report->title));
	if (report->detail[0])
		json_object_set_new(one, "detail", json_string(report->detail));
	for (i = 0; i < report->stacks; i++) {
		struct frames frames = { .list = json_array() };
		json_t *stack = json_object();

		json_object_set_new(stack, "title", json_string(report->stack[i].title));
		stack_walk(report->stack[i].stack, add_json_frame, &frames);
		json_object_set_new(stack, "frames", frames.list);
		json_array_append_new(stacks, stack);
	}
	json_object_set_new(one, "stacks", stacks);
	return one;
}

/* A location of SARIF from a frame, or NULL. */
static json_t *sarif_location(json_t *frame)
{
	const char *file = json_string_value(json_object_get(frame, "file"));

	if (!file)
		return NULL;
	return json_pack("{s:{s:{s:s},s:{s:I}}}", "physicalLocation", "artifactLocation", "uri", file, "region",
			 "startLine", (json_int_t)json_integer_value(json_object_get(frame, "line")));
}

static json_t *sarif_result(json_t *report)
{
	json_t *result, *locations = json_array(), *related = json_array(), *stack, *location;
	const char *detail = json_string_value(json_object_get(report, "detail"));
	struct text text = { .bytes = NULL };
	size_t i;

	add(&text, "%s%s%s", json_string_value(json_object_get(report, "message")), detail ? ". " : "",
	    detail ? detail : "");
	json_array_foreach(json_object_get(report, "stacks"), i, stack) {
		location = sarif_location(json_array_get(json_object_get(stack, "frames"), 0));
		if (!location)
			continue;
		if (i)
			json_object_set_new(location, "message",
					    json_pack("{s:O}", "text", json_object_get(stack, "title")));
		json_array_append_new(i ? related : locations, location);
	}
	result = json_pack("{s:O,s:s,s:{s:s},s:o,s:o}", "ruleId", json_object_get(report, "kind"), "level", "error",
			   "message", "text", text.bytes ? text.bytes : "", "locations", locations,
			   "relatedLocations", related);
	free(text.bytes);
	return result;
}

static json_t *sarif(void)
{
	json_t *rules = json_array(), *results = json_array(), *one;
	size_t i;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		json_array_append_new(rules, json_pack("{s:s,s:{s:s}}", "id", kinds[i].id, "shortDescription", "text",
						       kinds[i].text));
	json_array_foreach(documents, i, one)
		json_array_append_new(results, sarif_result(one));
	return json_pack("{s:s,s:s,s:[{s:{s:{s:s,s:o}},s:o}]}", "$schema",
			 "https://json.schemastore.org/sarif-2.1.0.json", "version", "2.1.0", "runs", "tool", "driver",
			 "name", "gpumem-check", "rules", rules, "results", results);
}

/* ---- ends */

static bool seen_before(const struct report *report)
{
	uint64_t key = report->kind;
	struct seen *one;
	unsigned int i;

	for (i = 0; i < report->stacks && i < 2; i++)
		key = key * 0x100000001b3ull ^ stack_hash(report->stack[i].stack);
	if (!options.stacks)
		for (i = 0; report->title[i]; i++)
			key = (key ^ (unsigned char)report->title[i]) * 0x100000001b3ull;
	for (one = seen; one; one = one->next)
		if (one->key == key)
			return true;
	one = malloc(sizeof(*one));
	if (!one)
		return false;
	one->key = key;
	one->next = seen;
	seen = one;
	return false;
}

static int log_open(void)
{
	int fd = options.log ? open(options.log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;

	return fd < 0 ? STDERR_FILENO : fd;
}

static void report_put(struct report *report)
{
	int fd;

	if (suppressed(report))
		return;
	reports++;
	if (shown == REPORTS_MOST)
		return;
	shown++;
	if (options.format != FORMAT_TEXT) {
		if (!documents)
			documents = json_array();
		json_array_append_new(documents, report_json(report));
	}
	fd = options.format == FORMAT_TEXT ? log_open() : STDERR_FILENO;
	print_text(report, fd, fd == STDERR_FILENO && isatty(fd) && !getenv("NO_COLOR"));
	if (fd != STDERR_FILENO)
		close(fd);
	if (options.abort) {
		reports_finish();
		/* A handler of SIGABRT may call the driver. */
		pthread_mutex_unlock(&check_lock);
		abort();
	}
}

void report_end(struct report *report)
{
	int cancel;

	if (seen_before(report))
		return;
	/* Reading and writing files are cancellation points, and the thread has the lock. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	report_put(report);
	pthread_setcancelstate(cancel, NULL);
}

unsigned int reports_count(void)
{
	return __atomic_load_n(&reports, __ATOMIC_RELAXED);
}

void reports_finish(void)
{
	json_t *document;

	if (reports > shown)
		dprintf(STDERR_FILENO, "  %u more reports\n", reports - shown);
	if (options.format == FORMAT_TEXT || !options.log)
		return;
	if (!documents)
		documents = json_array();
	document = options.format == FORMAT_SARIF ? sarif() :
		json_pack("{s:i,s:O}", "version", 1, "reports", documents);
	if (!document || json_dump_file(document, options.log, JSON_INDENT(2)))
		dprintf(STDERR_FILENO, "gpumem: GPUMEM_CHECK_LOG: cannot write %s\n", options.log);
	json_decref(document);
}
