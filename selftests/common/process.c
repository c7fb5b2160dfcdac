// SPDX-License-Identifier: GPL-2.0
/* See process.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "common/util.h"

pid_t start_child(int (*fn)(void *arg), void *arg)
{
	pid_t pid;

	fflush(stdout);
	fflush(stderr);
	pid = fork();
	if (!pid)
		_exit(fn(arg));
	return pid;
}

pid_t start_ready_child(int (*fn)(void *arg), void *arg, int *to)
{
	int up[2];
	pid_t pid;

	if (pipe(up))
		return -1;
	*to = up[1];
	pid = start_child(fn, arg);
	close(up[1]);
	if (pid > 0 && !hear(up[0])) {
		kill_child(pid);
		pid = -1;
	}
	close(up[0]);
	return pid;
}

int hear_child(int (*fn)(void *arg), void *arg, char *text, size_t size)
{
	size_t length = 0;
	int pipes[2], status;
	ssize_t n;
	pid_t pid;

	if (pipe2(pipes, O_CLOEXEC))
		return -1;
	fflush(stdout);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(pipes[1], STDERR_FILENO);
		close(pipes[1]);
		_exit(fn(arg));
	}
	close(pipes[1]);
	while ((n = read(pipes[0], text + length, size - 1 - length)) > 0)
		length += n;
	close(pipes[0]);
	text[length] = 0;
	return pid > 0 && waitpid(pid, &status, 0) == pid ? status : -1;
}

int end_child(pid_t pid)
{
	int status;

	if (pid < 0)
		return -1000;
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return -1000;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int run_child(int (*fn)(void *arg), void *arg)
{
	return end_child(start_child(fn, arg));
}

int kill_child(pid_t pid)
{
	/* -1 would be all processes. */
	if (pid > 0)
		kill(pid, SIGKILL);
	return end_child(pid);
}

struct touch {
	volatile char *p;
	bool write;
};

static int touch(void *arg)
{
	struct touch *t = arg;

	signal(SIGSEGV, SIG_DFL);
	signal(SIGBUS, SIG_DFL);
	if (t->write)
		*t->p = 1;
	else
		(void)*t->p;
	return 0;
}

bool faults_in_child(volatile void *p, bool write, int sig)
{
	struct touch t = { p, write };

	return run_child(touch, &t) == -sig;
}

/*
 * A forked child does not inherit mappings of device memory, so the calling thread touches the byte
 * itself.
 */
static __thread sigjmp_buf caught;

static void on_fault(int sig)
{
	siglongjmp(caught, sig);
}

/* The byte at @p, before it is written if @write, or minus the signal that touching it raises. */
static int touch_here(volatile unsigned char *p, bool write)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	const struct sigaction ours = { .sa_handler = on_fault, .sa_flags = SA_ONSTACK };
	struct sigaction segv, bus;
	volatile int value;
	int sig;

	pthread_mutex_lock(&lock);
	sigaction(SIGSEGV, &ours, &segv);
	sigaction(SIGBUS, &ours, &bus);
	sig = sigsetjmp(caught, 1);
	if (sig) {
		value = -sig;
	} else {
		value = *p;
		if (write)
			*p = 1;
	}
	sigaction(SIGBUS, &bus, NULL);
	sigaction(SIGSEGV, &segv, NULL);
	pthread_mutex_unlock(&lock);
	return value;
}

bool faults_with(volatile void *p, bool write, int sig)
{
	return touch_here(p, write) == -sig;
}

int peek(const volatile void *p)
{
	return touch_here((volatile unsigned char *)p, false);
}

void unmap_all(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned long from[256], to[256];
	unsigned int n = 0;
	char line[512];

	while (f && n < 256 && fgets(line, sizeof(line), f)) {
		const char *name;
		int at = 0;

		if (sscanf(line, "%lx-%lx %*s %*s %*s %*s %n", &from[n], &to[n], &at) != 2 || !at)
			continue;
		name = line + at;
		/*
		 * Compare from the start of the path: the checkout may lie in a directory called
		 * gpumem.
		 */
		if (!strncmp(name, "/dev/gpumem", 11) || !strncmp(name, "/dmabuf:", 8) ||
		    (!strncmp(name, "/gpumem", 7) && !strchr(name + 1, '/')))
			n++;
	}
	if (f)
		fclose(f);
	while (n--)
		munmap((void *)from[n], to[n] - from[n]);
}

bool tell(int fd)
{
	return write(fd, "", 1) == 1;
}

bool hear(int fd)
{
	char c;

	return read(fd, &c, 1) == 1;
}

int send_fd(int sock, int fd)
{
	char data = 0, control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { &data, 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(int));
	return sendmsg(sock, &msg, 0) < 0 ? -errno : 0;
}

int recv_fd(int sock)
{
	char data, control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { &data, 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *c;
	int fd;

	if (recvmsg(sock, &msg, MSG_CMSG_CLOEXEC) < 0)
		return -errno;
	c = CMSG_FIRSTHDR(&msg);
	if (!c || c->cmsg_type != SCM_RIGHTS)
		return -EBADMSG;
	memcpy(&fd, CMSG_DATA(c), sizeof(int));
	return fd;
}

int worker_threads(pid_t pid, pid_t *tids, int max)
{
	char path[320], comm[64];
	struct dirent *d;
	int n = 0;
	DIR *dir;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	if (!dir)
		return -errno;
	while ((d = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/%d/task/%s/comm", pid, d->d_name);
		f = d->d_name[0] == '.' ? NULL : fopen(path, "re");
		if (!f)
			continue;
		if (fgets(comm, sizeof(comm), f) && !strncmp(comm, "gpumem/", 7)) {
			if (n < max)
				tids[n] = atoi(d->d_name);
			n++;
		}
		fclose(f);
	}
	closedir(dir);
	return n;
}
