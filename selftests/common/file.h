/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Text files of the kernel: sysfs, procfs, debugfs.
 */
#ifndef GPUMEM_SELFTESTS_FILE_H
#define GPUMEM_SELFTESTS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* 0 or a negative errno. */
int write_file(const char *path, const char *text);
/* The beginning of a file; false, and an empty text, if the file cannot be read. */
bool read_text(const char *path, char *text, size_t size);
/* The number behind @key in a file, or -1. */
long long number_of(const char *path, const char *key);
/* Waits up to five seconds until a file holds a number; prints the one that it holds otherwise. */
bool number_becomes(const char *path, long long want);

/* A file whose text a case changes for a time. */
struct changed {
	FILE *keeper;
};

/*
 * Write @text to a file.  Another process writes the former text back when the caller calls file_restore(), or a
 * moment after the caller's end, also if the harness kills it after a time-out.  If the former text has a word in
 * brackets, it writes that word.  A program that calls exit() waits for such processes.
 */
bool file_change(struct changed *changed, const char *path, const char *text);
/* 0 if the former text is back. */
int file_restore(struct changed *changed);

#endif
