// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem trace: what streams, memory and pools of a process do, as a file for Perfetto or chrome://tracing.
 *
 * The command makes an instance of tracefs, lets the module's tracepoints write to it, and turns each line of the
 * process and of its children into an event of the JSON format of Chrome's traces.  A stream is a thread there, and a
 * client a process.  tracefs cannot choose the lines: a worker is a thread of the process, but tracefs does not see it
 * being made.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <search.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tool.h"

#define TRACEFS		"/sys/kernel/tracing"
#define FIELDS		16
#define COMM_WIDTH	16		/* of the column of names */
/* The buffers of all CPUs together, and the least and the largest of one. */
#define BUFFERS_KB	(256UL << 10)
#define LEAST_KB	1024UL
#define MOST_KB		16384UL

/* A line of the trace. */
struct line {
	double us;			/* time */
	unsigned int tgid, tid;		/* process and thread; 0 if unknown */
	const char *comm, *event;
	struct {
		const char *key, *value;
	} fields[FIELDS];
	unsigned int n;
};

/* The elements of the search trees below (tsearch(3)) begin with their key. */
struct key {
	unsigned long long client, id;
};

/* An object that holds memory. */
struct memory {
	struct key key;			/* id: the object's address */
	unsigned long long bytes;
	unsigned int pool;
	bool host;
};

/* A client or a stream that the file names already, or an entry that has begun. */
struct known {
	struct key key;			/* id 0: the client */
	double begun;			/* of the entry under way; 0 if there is none */
	char name[64], args[256];
	unsigned long long device, host;	/* bytes, of a client */
};

/* A pool, and the bytes in its chunks. */
struct pool {
	struct key key;
	unsigned long long bytes;
};

static void *pools, *memories, *known;
static void *traced;			/* processes and threads, without a client */
static char instance[128];
static FILE *out;
static bool first = true;
static volatile sig_atomic_t stopped;	/* the signal that ends the trace, or 0 */
static int pipe_fd = -1;

static void stop(int sig)
{
	stopped = sig;
}

static int compare(const void *a, const void *b)
{
	const struct key *x = a, *y = b;

	if (x->client != y->client)
		return x->client < y->client ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

/* The element of a tree, or NULL. */
static void *find(void *const *tree, unsigned long long client, unsigned long long id)
{
	const struct key key = { client, id };
	void **node = tfind(&key, tree, compare);

	return node ? *node : NULL;
}

/* Add an element of @size bytes, zeroed behind its key.  The tree has none of this key. */
static void *add(void **tree, size_t size, unsigned long long client, unsigned long long id)
{
	struct key *key = calloc(1, size);

	if (key)
		*key = (struct key){ client, id };
	if (!key || !tsearch(key, tree, compare))
		die("not enough memory");
	return key;
}

static void drop(void **tree, void *element)
{
	if (element)
		tdelete(element, tree, compare);
	free(element);
}

/* --- tracefs */

/* Write a file of the instance: 0 or a negative errno. */
static int write_here(const char *name, const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", instance, name);
	return write_file(path, text);
}

static void write_or_die(const char *name, const char *text)
{
	int ret = write_here(name, text);

	if (ret)
		die("%s/%s: %s", instance, name, strerror(-ret));
}

static void remove_instance(void)
{
	/* An instance in use stays. */
	if (pipe_fd >= 0)
		close(pipe_fd);
	pipe_fd = -1;
	if (instance[0] && rmdir(instance))
		fprintf(stderr, "gpumem: %s: %s\n", instance, strerror(errno));
	instance[0] = 0;
}

/* Remove the instances of commands that were killed: their buffers are the kernel's memory. */
static void remove_old(void)
{
	DIR *dir = opendir(TRACEFS "/instances");
	struct dirent *e;
	char path[300];

	while (dir && (e = readdir(dir))) {
		int pid = strncmp(e->d_name, "gpumem-", 7) ? 0 : atoi(e->d_name + 7);

		if (pid <= 0 || !kill(pid, 0) || errno != ESRCH)
			continue;
		snprintf(path, sizeof(path), TRACEFS "/instances/%s", e->d_name);
		rmdir(path);
	}
	if (dir)
		closedir(dir);
}

static void make_instance(void)
{
	unsigned long kb = BUFFERS_KB / sysconf(_SC_NPROCESSORS_ONLN);
	char text[32];

	remove_old();
	snprintf(text, sizeof(text), "%lu", kb < LEAST_KB ? LEAST_KB : kb > MOST_KB ? MOST_KB : kb);
	snprintf(instance, sizeof(instance), TRACEFS "/instances/gpumem-%d", getpid());
	if (mkdir(instance, 0700)) {
		int error = errno;

		instance[0] = 0;
		if (error == EACCES || error == EPERM)
			die("trace: not permitted: become root");
		if (error == ENOENT)
			die("trace: tracefs is not there: mount -t tracefs tracefs " TRACEFS);
		die(TRACEFS "/instances: %s", strerror(error));
	}
	atexit(remove_instance);
	if (write_here("events/gpumem/enable", "0"))
		die(module_loaded() ? "the kernel has no events of gpumem: it needs CONFIG_TRACEPOINTS=y" :
		    "the module is not loaded: modprobe gpumem");
	write_or_die("trace_clock", "mono");
	write_or_die("buffer_size_kb", text);
	write_or_die("options/record-tgid", "1");
	/* The ids of children, and of threads that end: another process may get the number. */
	write_or_die("events/sched/sched_process_fork/enable", "1");
	write_or_die("events/sched/sched_process_exit/enable", "1");
}

/* --- traced processes */

static bool is_traced(unsigned int pid)
{
	return find(&traced, 0, pid);
}

static void add_process(unsigned int pid)
{
	if (!is_traced(pid))
		add(&traced, sizeof(struct key), 0, pid);
}

/* --- the file */

__attribute__((format(printf, 1, 2)))
static void event(const char *format, ...)
{
	va_list ap;

	fputs(first ? "\n" : ",\n", out);
	first = false;
	va_start(ap, format);
	vfprintf(out, format, ap);
	va_end(ap);
}

static const char *field(const struct line *line, const char *key)
{
	for (unsigned int i = 0; i < line->n; i++)
		if (!strcmp(line->fields[i].key, key))
			return line->fields[i].value;
	return "0";
}

static unsigned long long number(const struct line *line, const char *key)
{
	return strtoull(field(line, key), NULL, 0);
}

/* The client or the stream, which gets its name in the file at the first time. */
static struct known *know(const struct line *line, unsigned int client, unsigned int stream)
{
	struct known *k;
	json_t *name;
	char text[128], path[64], comm[64], *quoted;

	k = find(&known, client, stream);
	if (k)
		return k;
	k = add(&known, sizeof(*k), client, stream);
	if (stream) {
		event("{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":\"stream %u\"}}",
		      client, stream, stream);
	} else {
		/* A worker has another name than its process. */
		snprintf(path, sizeof(path), "/proc/%u/comm", line->tgid);
		if (!read_line(path, comm, sizeof(comm)))
			snprintf(comm, sizeof(comm), "%s", line->comm);
		snprintf(text, sizeof(text), "process %u %s, client %u", line->tgid, comm, client);
		name = text_json(text);
		quoted = json_dumps(name, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
		if (!quoted)
			die("not enough memory");
		event("{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%u,\"args\":{\"name\":%s}}", client, quoted);
		free(quoted);
		json_decref(name);
	}
	return k;
}

/* The bytes in chunks of a pool. */
static unsigned long long *know_pool(unsigned int client, unsigned int id)
{
	struct pool *pool = find(&pools, client, id);

	if (!pool)
		pool = add(&pools, sizeof(*pool), client, id);
	return &pool->bytes;
}

static void count_memory(const struct line *line, const struct memory *m, bool more)
{
	unsigned int client = m->key.client;
	struct known *k = know(line, client, 0);
	unsigned long long *bytes = m->host ? &k->host : &k->device, *pool;

	*bytes += more ? m->bytes : -m->bytes;
	event("{\"ph\":\"C\",\"name\":\"memory\",\"pid\":%u,\"ts\":%.3f,\"args\":{\"device\":%llu,\"host\":%llu}}",
	      client, line->us, k->device, k->host);
	if (!m->pool)
		return;
	pool = know_pool(client, m->pool);
	*pool += more ? m->bytes : -m->bytes;
	event("{\"ph\":\"C\",\"name\":\"pool %u\",\"pid\":%u,\"ts\":%.3f,\"args\":{\"bytes\":%llu}}", m->pool, client,
	      line->us, *pool);
}

static void on_new(const struct line *line)
{
	unsigned long long obj = strtoull(field(line, "obj"), NULL, 16);
	unsigned int client = number(line, "client");
	const char *kind = field(line, "kind");
	bool host = !strcmp(kind, "host");
	struct memory *m;

	/* Views, registrations and imports have no memory of their own, and managed memory has none yet. */
	if (strcmp(field(line, "type"), "bo") || (strcmp(kind, "device") && !host))
		return;
	/* Its gpumem_object_free event was lost. */
	m = find(&memories, client, obj);
	if (m) {
		count_memory(line, m, false);
		drop(&memories, m);
	}
	m = add(&memories, sizeof(*m), client, obj);
	m->bytes = number(line, "bytes");
	m->pool = number(line, "pool");
	m->host = host;
	count_memory(line, m, true);
}

static void on_free(const struct line *line)
{
	struct memory *m = find(&memories, number(line, "client"), strtoull(field(line, "obj"), NULL, 16));

	if (m)
		count_memory(line, m, false);
	drop(&memories, m);
}

static void on_begin(const struct line *line)
{
	unsigned int client = number(line, "client"), stream = number(line, "stream");
	const char *op = field(line, "op");
	unsigned long long bytes = number(line, "width") * number(line, "height");
	struct known *k;
	char size[32];

	know(line, client, 0);
	k = know(line, client, stream);
	k->begun = line->us;
	format_size(bytes, size, sizeof(size));
	if (!strcmp(op, "copy"))
		snprintf(k->name, sizeof(k->name), "%s %s", op, size);
	else
		snprintf(k->name, sizeof(k->name), "%s", op);
	snprintf(k->args, sizeof(k->args),
		 "\"entry\":%llu,\"dst\":\"%s\",\"src\":\"%s\",\"width\":%llu,\"height\":%llu", number(line, "entry"),
		 field(line, "dst"), field(line, "src"), number(line, "width"), number(line, "height"));
}

static void on_end(const struct line *line)
{
	unsigned int client = number(line, "client"), stream = number(line, "stream");
	struct known *k = find(&known, client, stream);
	const char *op = field(line, "op");
	bool waits = !strcmp(op, "wait") || !strcmp(op, "poll");

	/* The trace may begin during an entry. */
	if (!k || !k->begun)
		return;
	event("{\"ph\":\"X\",\"name\":\"%s\",\"cat\":\"%s\",\"pid\":%u,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f,\"args\":{%s,\"error\":%llu}}",
	      k->name, waits ? "wait" : "work", client, stream, k->begun, line->us - k->begun, k->args,
	      number(line, "error"));
	k->begun = 0;
}

/* Something that takes no time: refusals, exports, moves of managed memory. */
static void on_instant(const struct line *line)
{
	unsigned int client = number(line, "client");

	know(line, client, 0);
	/* The names and values are the kernel's: letters, digits and "_". */
	event("{\"ph\":\"i\",\"s\":\"p\",\"name\":\"%s\",\"pid\":%u,\"tid\":0,\"ts\":%.3f,\"args\":{",
	      line->event + strlen("gpumem_"), client, line->us);
	for (unsigned int i = 0; i < line->n; i++)
		fprintf(out, "%s\"%s\":\"%s\"", i ? "," : "", line->fields[i].key, line->fields[i].value);
	fputs("}}", out);
}

/*
 * The process of a thread, or 0.  tracefs learns a thread's process and name when the thread leaves its CPU, which may be
 * after its lines are read.
 */
static unsigned int process_of(unsigned int tid)
{
	static unsigned int last_tid, last;
	char path[64], line[128];
	FILE *f;

	if (tid == last_tid)
		return last;
	last_tid = tid;
	last = 0;
	snprintf(path, sizeof(path), "/proc/%u/status", tid);
	f = fopen(path, "re");
	while (f && !last && fgets(line, sizeof(line), f))
		sscanf(line, "Tgid: %u", &last);
	if (f)
		fclose(f);
	return last;
}

/*
 * Split a line of tracefs: "%16s-%-7d (%7d) [%03d] FLAGS SECONDS: EVENT: KEY=VALUE...".  False for another line.
 *
 * Names of processes may hold anything, so the columns tell where the name ends.
 */
static bool split(char *text, struct line *line)
{
	char *at, *colon, *word, *state;

	if (strlen(text) < COMM_WIDTH + 1 || text[COMM_WIDTH] != '-')
		return false;
	text[COMM_WIDTH] = 0;
	line->comm = text + strspn(text, " ");
	line->tid = strtoul(text + COMM_WIDTH + 1, &at, 10);
	at += strspn(at, " ");
	if (*at++ != '(')
		return false;
	/* The process may not be known: "(-------)". */
	line->tgid = strtoul(at, NULL, 10);
	if (!line->tgid)
		line->tgid = process_of(line->tid);
	/* A worker has it in its name, as its pid namespace numbers it. */
	if (!line->tgid && !strncmp(line->comm, "gpumem/", 7))
		line->tgid = strtoul(line->comm + 7, NULL, 10);
	at = strstr(at, "] ");
	colon = at ? strstr(at, ": ") : NULL;
	if (!colon)
		return false;
	*colon = 0;
	at = strrchr(at, ' ');
	line->us = strtod(at + 1, NULL) * 1e6;
	at = colon + 2;
	line->event = at;
	colon = strchr(at, ':');
	if (!colon)
		return false;
	*colon = 0;
	if (strncmp(line->event, "gpumem_", 7) && strncmp(line->event, "sched_process_", 14))
		return false;
	line->n = 0;
	for (word = strtok_r(colon + 1, " \n", &state); word && line->n < FIELDS;
	     word = strtok_r(NULL, " \n", &state)) {
		char *equals = strchr(word, '=');

		if (!equals)
			continue;
		*equals = 0;
		line->fields[line->n].key = word;
		line->fields[line->n++].value = equals + 1;
	}
	return true;
}

/* Is the line one of the processes that are traced, or of an object or a client of theirs? */
static bool wanted(const struct line *line)
{
	if (is_traced(line->tgid) || is_traced(line->tid))
		return true;
	/* Kernel threads free objects, and other processes evict blocks. */
	return strncmp(line->event, "sched", 5) && find(&known, number(line, "client"), 0);
}

/* A thread has ended.  If it is the first of its process, the number is in use as long as there are others. */
static void on_thread_end(const struct line *line)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%u/task", line->tid);
	/* The directory has two links, and one for each thread of the process. */
	if (line->tid != line->tgid || stat(path, &st) || st.st_nlink <= 3)
		drop(&traced, find(&traced, 0, line->tid));
}

static void on_line(char *text)
{
	struct line line;

	if (!split(text, &line) || !wanted(&line))
		return;
	if (!strcmp(line.event, "sched_process_fork"))
		add_process(number(&line, "child_pid"));
	else if (!strcmp(line.event, "sched_process_exit"))
		on_thread_end(&line);
	else if (!strcmp(line.event, "gpumem_object_new"))
		on_new(&line);
	else if (!strcmp(line.event, "gpumem_object_free"))
		on_free(&line);
	else if (!strcmp(line.event, "gpumem_entry_begin"))
		on_begin(&line);
	else if (!strcmp(line.event, "gpumem_entry_end"))
		on_end(&line);
	else if (strcmp(line.event, "gpumem_object_gone"))
		on_instant(&line);
}

/* Read what is in the trace.  Returns false if there may be more. */
static bool drain(void)
{
	static char buffer[65536];
	static size_t held;
	ssize_t n;

	/* Other processes may write as fast as this one reads. */
	for (int i = 0; i < 64; i++) {
		char *at = buffer, *end;

		n = read(pipe_fd, buffer + held, sizeof(buffer) - 1 - held);
		if (n <= 0)
			return true;
		held += n;
		buffer[held] = 0;
		while ((end = strchr(at, '\n'))) {
			*end = 0;
			on_line(at);
			at = end + 1;
		}
		held -= at - buffer;
		memmove(buffer, at, held);
		if (held == sizeof(buffer) - 1)
			held = 0;
	}
	return false;
}

/* How many events a CPU's buffer lost, of all CPUs. */
static unsigned long long lost_events(void)
{
	unsigned long long sum = 0, n;
	char path[256], line[128];

	for (int cpu = 0; ; cpu++) {
		FILE *f;

		snprintf(path, sizeof(path), "%s/per_cpu/cpu%d/stats", instance, cpu);
		f = fopen(path, "re");
		if (!f)
			return sum;
		while (fgets(line, sizeof(line), f))
			if (sscanf(line, "overrun: %llu", &n) == 1)
				sum += n;
		fclose(f);
	}
}

/* Start the command, which waits until a byte comes through @go. */
static pid_t start(char **command, int *go)
{
	int pipes[2];
	pid_t pid;
	char c;

	if (pipe2(pipes, O_CLOEXEC))
		die("pipe: %s", strerror(errno));
	fflush(NULL);
	pid = fork();
	if (pid < 0)
		die("fork: %s", strerror(errno));
	if (!pid) {
		close(pipes[1]);
		if (read(pipes[0], &c, 1) != 1)
			_exit(127);
		/* Otherwise the library executes small operations itself, without events. */
		setenv("GPUMEM_INLINE", "0", 0);
		execvp(command[0], command);
		fprintf(stderr, "gpumem: %s: %s\n", command[0], strerror(errno));
		_exit(127);
	}
	close(pipes[0]);
	*go = pipes[1];
	return pid;
}

/* Has the process ended, or is it a zombie? */
static bool has_ended(pid_t pid)
{
	char path[64], line[512], *state;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (!read_line(path, line, sizeof(line)))
		return true;
	state = strrchr(line, ')');
	return state && (state[2] == 'Z' || state[2] == 'X');
}

/* Read events until the command or the process has ended, or a signal comes.  Returns the command's status. */
static int follow(pid_t pid, bool ours)
{
	bool ended = false, told = false;
	int status = 0;

	while (!ended) {
		struct pollfd fd = { .fd = pipe_fd, .events = POLLIN };

		poll(&fd, 1, 200);
		/* The terminal has sent SIGINT to the command, too. */
		if (ours && stopped && stopped != SIGINT && !told) {
			told = true;
			kill(pid, stopped);
		}
		ended = ours ? waitpid(pid, &status, WNOHANG) == pid : stopped || has_ended(pid);
		drain();
	}
	return status;
}

int trace(char **command)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	const char *path = options.output ? options.output : "gpumem-trace.json";
	struct sigaction action = { .sa_handler = stop };
	unsigned long long lost;
	int go = -1, status = 0;
	pid_t pid = options.pid;
	char name[256];

	if (!!command[0] == !!options.pid)
		misused("trace wants a command, or --pid");
	/* The instance must go in the end. */
	for (unsigned int i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		sigaction(signals[i], &action, NULL);
	if (options.pid && kill(options.pid, 0) && errno == ESRCH)
		die("process %d does not exist", options.pid);
	make_instance();
	if (command[0])
		pid = start(command, &go);
	add_process(pid);
	out = fopen(path, "we");
	if (!out)
		die("%s: %s", path, strerror(errno));
	fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", out);
	snprintf(name, sizeof(name), "%s/trace_pipe", instance);
	pipe_fd = open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (pipe_fd < 0)
		die("%s: %s", name, strerror(errno));
	write_or_die("events/gpumem/enable", "1");
	if (go >= 0 && write(go, "", 1) == 1)
		close(go);
	status = follow(pid, command[0]);
	write_or_die("events/gpumem/enable", "0");
	write_or_die("events/sched/enable", "0");
	while (!drain())
		;
	lost = lost_events();
	fputs("\n]}\n", out);
	errno = 0;
	if (fflush(out) || ferror(out) || fclose(out))
		die("%s: %s", path, strerror(errno ? errno : EIO));
	remove_instance();
	if (lost)
		fprintf(stderr, "gpumem: %llu events are lost: the trace has gaps\n", lost);
	fprintf(stderr, "gpumem: %s: open it with https://ui.perfetto.dev or chrome://tracing\n", path);
	if (!command[0])
		return 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
