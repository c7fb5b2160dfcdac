// SPDX-License-Identifier: GPL-2.0
/* Messages, numbers and JSON; tool.h describes the functions. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tool.h"

/* The version of the documents: rises when a member goes or changes its meaning. */
#define JSON_FORMAT	1
#define JSON_FLAGS	(JSON_INDENT(2) | JSON_ENSURE_ASCII)

/* The end of a document whose array is open; NULL if none is. */
static const char *open_end;
static const char array_end[] = "\n  ]\n}\n";
static bool first_element;

static void say(const char *format, va_list ap)
{
	/* An error ends a document, too. */
	if (open_end)
		fputs(open_end, stdout);
	open_end = NULL;
	fflush(stdout);
	fputs("gpumem: ", stderr);
	vfprintf(stderr, format, ap);
	fputc('\n', stderr);
}

void die(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	say(format, ap);
	va_end(ap);
	exit(1);
}

void misused(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	say(format, ap);
	va_end(ap);
	fputs("Try gpumem --help.\n", stderr);
	exit(2);
}

void format_size(unsigned long long value, char *text, size_t size)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
	double v = value;
	unsigned int i = 0;

	if (options.bytes) {
		snprintf(text, size, "%llu", value);
		return;
	}
	while (v >= 1024 && i < 5) {
		v /= 1024;
		i++;
	}
	snprintf(text, size, v == (unsigned long long)v ? "%.0f %s" : "%.1f %s", v, units[i]);
}

void size_cell(double value, int width)
{
	char text[64];

	format_size(value, text, sizeof(text));
	printf(" %*s", width, text);
}

const char *time_now(char text[32])
{
	struct timespec now;
	struct tm tm;
	size_t n;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	n = strftime(text, 32, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text + n, 32 - n, ".%03ldZ", now.tv_nsec / 1000000);
	return text;
}

void check_output(void)
{
	if (fflush(stdout) || ferror(stdout))
		die("standard output: %s", strerror(errno));
}

static json_t *made(json_t *value)
{
	if (!value)
		die("not enough memory");
	return value;
}

json_t *pack(const char *format, ...)
{
	json_t *value;
	va_list ap;

	va_start(ap, format);
	value = json_vpack_ex(NULL, 0, format, ap);
	va_end(ap);
	return made(value);
}

json_t *document(const char *command)
{
	char now[32];

	return pack("{s:i, s:s, s:s}", "format", JSON_FORMAT, "command", command, "time", time_now(now));
}

void put(json_t *object, const char *key, json_t *value)
{
	if (json_object_set_new(object, key, made(value)))
		die("not enough memory");
}

void append(json_t *array, json_t *value)
{
	if (json_array_append_new(array, made(value)))
		die("not enough memory");
}

json_t *number_json(unsigned long long value)
{
	return made(json_integer(value < INT64_MAX ? value : INT64_MAX));
}

void put_number(json_t *object, const char *key, unsigned long long value)
{
	put(object, key, number_json(value));
}

json_t *text_json(const char *text)
{
	json_t *value = json_string(text);
	char *copy;

	if (value)
		return value;
	/* Not UTF-8: names of processes are cut after 15 bytes. */
	copy = strdup(text);
	if (!copy)
		die("not enough memory");
	for (char *c = copy; *c; c++)
		if ((unsigned char)*c >= 0x80)
			*c = '?';
	value = made(json_string(copy));
	free(copy);
	return value;
}

int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), ret = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		ret = -errno;
	close(fd);
	return ret;
}

void write_whole(const char *path, const char *text, size_t size)
{
	char *new = NULL;
	struct stat st;
	int fd, error;
	FILE *f;

	/* A device or a pipe stays what it is.  The readers of a file see the former one or the new one. */
	if (!stat(path, &st) && !S_ISREG(st.st_mode)) {
		fd = open(path, O_WRONLY | O_CLOEXEC);
	} else {
		if (asprintf(&new, "%s.XXXXXX", path) < 0)
			die("not enough memory");
		fd = mkostemp(new, O_CLOEXEC);
	}
	f = fd < 0 ? NULL : fdopen(fd, "w");
	if (!f)
		die("%s: %s", path, strerror(errno));
	if (fwrite(text, 1, size, f) == size && !fflush(f) && (!new || (!fchmod(fd, 0644) && !fsync(fd))) &&
	    !fclose(f) && (!new || !rename(new, path))) {
		free(new);
		return;
	}
	error = errno;
	if (new)
		unlink(new);
	die("%s: %s", path, strerror(error));
}

void put_text(json_t *object, const char *key, const char *text)
{
	char *end;
	long long value;

	errno = 0;
	value = strtoll(text, &end, 10);
	if (*text && !*end && (!errno || errno == ERANGE))
		put(object, key, json_integer(value));
	else
		put(object, key, text_json(text));
}

void print_document(json_t *doc)
{
	if (json_dumpf(doc, stdout, JSON_FLAGS))
		die("standard output: %s", strerror(errno));
	putchar('\n');
	json_decref(doc);
}

/* Ends the array of a command that waits.  The elements before it have been flushed. */
static void ended(int sig)
{
	ssize_t n = write(STDOUT_FILENO, array_end, sizeof(array_end) - 1);

	(void)sig;
	_exit(n < 0);
}

/* Let SIGINT and SIGTERM wait, or not. */
static void signals(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(how, &set, NULL);
}

void begin_array(const char *command, const char *key)
{
	struct sigaction action = { .sa_handler = ended };
	char now[32];

	signals(SIG_BLOCK);
	printf("{\n  \"format\": %d,\n  \"command\": \"%s\",\n  \"time\": \"%s\",\n  \"%s\": [\n", JSON_FORMAT, command,
	       time_now(now), key);
	check_output();
	first_element = true;
	open_end = array_end;
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	signals(SIG_UNBLOCK);
}

void next_element(json_t *value)
{
	signals(SIG_BLOCK);
	if (!first_element)
		fputs(",\n", stdout);
	first_element = false;
	if (json_dumpf(value, stdout, JSON_COMPACT | JSON_ENSURE_ASCII))
		die("standard output: %s", strerror(errno));
	json_decref(value);
	check_output();
	signals(SIG_UNBLOCK);
}

void end_array(void)
{
	signals(SIG_BLOCK);
	open_end = NULL;
	fputs(array_end, stdout);
}
