/* SPDX-License-Identifier: GPL-2.0 */
/* Functions that the files of the command gpumem share.  After an error they end the program. */
#ifndef GPUMEM_TOOLS_TOOL_H
#define GPUMEM_TOOLS_TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <jansson.h>

#define CLASS		"/sys/class/gpumem"
#define PARAMETERS	"/sys/module/gpumem/parameters"
#define MAX_DEVICES	64

/* What the command line asks for. */
struct options {
	bool all, bytes, clients, json, openmetrics, times;
	unsigned long count;		/* 0: no end */
	int pid;			/* or 0 */
	double interval;		/* seconds between two screens of top */
	const char *output, *sort;	/* or NULL */
};

extern struct options options;

/* --- output.c: messages, numbers, JSON */

/* Print a message and end with 1: something was not found, not allowed, or failed. */
__attribute__((noreturn, format(printf, 1, 2)))
void die(const char *format, ...);
/* The same with 2: the command line is wrong. */
__attribute__((noreturn, format(printf, 1, 2)))
void misused(const char *format, ...);
/* Format a number of bytes, such as "3.5 MiB"; with --bytes as a plain number. */
void format_size(unsigned long long value, char *text, size_t size);
/* Print a number of bytes behind a space, in a column of @width. */
void size_cell(double value, int width);
/* The time in UTC, such as 2026-01-31T12:00:00.123Z. */
const char *time_now(char text[32]);
/* End the program if standard output could not be written, because a disk is full for example. */
void check_output(void);
/* Like json_pack(), but ends the program if memory is short. */
json_t *pack(const char *format, ...);
/* A document of a command: an object with the format's version, the command's name and the time. */
json_t *document(const char *command);
/* Add @value, which this function takes, to an object or an array. */
void put(json_t *object, const char *key, json_t *value);
void append(json_t *array, json_t *value);
void put_number(json_t *object, const char *key, unsigned long long value);
/* At most 2^63 - 1. */
json_t *number_json(unsigned long long value);
/* A string; bytes that are not UTF-8 become "?". */
json_t *text_json(const char *text);
/* Write to a file of the kernel: 0 or a negative errno. */
int write_file(const char *path, const char *text);
/* Write a file, which is replaced as a whole, or a device. */
void write_whole(const char *path, const char *text, size_t size);
/* Add a number if @text is one, else a string. */
void put_text(json_t *object, const char *key, const char *text);
/* Print a document, and free it. */
void print_document(json_t *doc);
/*
 * Begin a document whose last member is an array that grows: print each element with next_element(), and the end with
 * end_array().  SIGINT and SIGTERM end it, too.
 */
void begin_array(const char *command, const char *key);
void next_element(json_t *value);
void end_array(void);

/* --- sysfs.c: devices, their attributes, the module's parameters */

bool module_loaded(void);
/* Store the numbers N of the devices gpumemN, in rising order; returns how many, 0 if the module is not loaded. */
unsigned int device_numbers(unsigned int numbers[MAX_DEVICES]);
/* Read the first line of a file, without the line end; false if the file has none or cannot be read. */
bool read_line(const char *path, char *line, size_t size);
/* The number in an attribute of the class or of a device ("gpumem0/size"), or -1. */
long long class_number(const char *name);
int list(void);
/* An array of the devices with all attributes. */
json_t *devices_json(void);
/* An object of the attributes of the class, in which the sums of all devices and users are. */
json_t *host_json(void);
int set(char **words);

/* --- stat.c: the clients of processes, by fdinfo */

int stat_all(void);
int stat_some(char **pids);

/* --- live.c: clients, objects and refusals, by netlink */

struct gnl;
struct gnl_client;

/* The clients at one time. */
struct sample {
	struct gnl_client *clients;
	size_t n;
	struct gnl_device *devices;
	size_t ndevices;
	bool torn;
	double time;	/* seconds */
};

void open_or_die(struct gnl *nl);
/* Take a sample of the clients, without the devices. */
void take_sample(struct gnl *nl, struct sample *s);
void take_devices(struct gnl *nl, struct sample *s);
void free_sample(struct sample *s);
/* On standard error: other users' clients are missing, if the caller is not root. */
void note_partial(void);
/* An object of a client's properties and counters. */
json_t *client_json(const struct gnl_client *client);
/* Print the titles of a table of clients, and a client's line; both without the end of the line. */
void client_titles(void);
void client_cells(const struct gnl_client *client);
int list_clients(void);
int list_objects(const char *client);
int watch(void);
/* Returns 0 if nothing exists and all values agree, 1 if it printed lines. */
int leaks(void);

/* --- others */

int top(void);		/* top.c */
int doctor(void);	/* doctor.c; returns 1 if something is wrong */
int metrics(void);	/* metrics.c */
int trace(char **command);	/* trace.c; returns the command's exit status */

/* vm.c, record.c, cdi.c and fault.c; argv[0] is the command's name */
__attribute__((noreturn))
void vm(char **argv);
/* Become a program of libexec/gpumem.  @advice: for the message if it is not there. */
__attribute__((noreturn))
void run_helper(const char *name, char **argv, const char *advice);
__attribute__((noreturn))
void record(int argc, char **argv);
__attribute__((noreturn))
void replay(char **argv);
int cdi(int argc, char **argv);
int fault(int argc, char **argv);

#endif
