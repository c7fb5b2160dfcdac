// SPDX-License-Identifier: GPL-2.0
/* See file.h. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/util.h"

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

bool read_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

	text[n > 0 ? n : 0] = 0;
	if (fd >= 0)
		close(fd);
	return n >= 0;
}

long long number_of(const char *path, const char *key)
{
	long long value = -1;
	char line[256];
	FILE *f = fopen(path, "re");

	while (f && fgets(line, sizeof(line), f)) {
		if (!strncmp(line, key, strlen(key)))
			sscanf(line + strlen(key), "%lld", &value);
	}
	if (f)
		fclose(f);
	return value;
}

bool number_becomes(const char *path, long long want)
{
	long long is = -1;

	for (int i = 0; i < 500; i++) {
		is = number_of(path, "");
		if (is == want)
			return true;
		nap_ms(10);
	}
	fprintf(stderr, "# %s is %lld, not %lld\n", path, is, want);
	return false;
}

/* The file that a keeper locks while it is about to write a former text back. */
#define LOCKS	"/tmp/gpumem-changed"

/* Take the lock at @name within a minute.  The descriptor is inherited, or -1. */
static int lock_take(const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT, 0600);

	if (fd < 0)
		return -1;
	for (int i = 0; i < 6000; i++) {
		if (!flock(fd, LOCK_EX | LOCK_NB))
			return fd;
		nap_ms(10);
	}
	close(fd);
	fprintf(stderr, "# a process has held %s for a minute\n", name);
	return -1;
}

/*
 * Wait until no process is about to write the former text back, and keep others from changing the file.  The keeper
 * inherits the descriptor, and with it the lock.
 */
static int file_lock(const char *path)
{
	char name[256] = LOCKS;
	size_t length = strlen(name);

	snprintf(name + length, sizeof(name) - length, "%s", path);
	for (char *c = name + length; *c; c++)
		if (*c == '/')
			*c = '-';
	return lock_take(name);
}

/*
 * At the program's end: wait until all former texts are back.  run_kselftest.sh kills what is left of a program as
 * soon as it has ended.
 */
__attribute__((destructor)) static void wait_for_keepers(void)
{
	glob_t locks = { .gl_pathc = 0 };

	if (!glob(LOCKS "*", 0, NULL, &locks))
		for (size_t i = 0; i < locks.gl_pathc; i++)
			close(lock_take(locks.gl_pathv[i]));
	globfree(&locks);
}

/* If a file lists the words that it accepts, the one in force is in brackets: keep that one. */
static void keep_chosen(char *text)
{
	const char *word = strchr(text, '[');
	size_t n = word ? strcspn(word, "]") : 0;

	if (!word || word[n] != ']')
		return;
	memmove(text, word + 1, n - 1);
	text[n - 1] = 0;
}

bool file_change(struct changed *changed, const char *path, const char *text)
{
	char former[96], command[256];
	int lock = file_lock(path);

	if (lock < 0)
		return false;
	if (!read_text(path, former, sizeof(former))) {
		close(lock);
		return false;
	}
	former[strcspn(former, "\n")] = 0;
	keep_chosen(former);
	/* A session of its own: the harness kills the process group of a case. */
	snprintf(command, sizeof(command), "exec setsid sh -c 'cat >/dev/null; printf %%s \"%s\" >%s'", former, path);
	changed->keeper = popen(command, "we");
	close(lock);
	if (!changed->keeper)
		return false;
	if (!write_file(path, text))
		return true;
	pclose(changed->keeper);
	return false;
}

int file_restore(struct changed *changed)
{
	return pclose(changed->keeper);
}
