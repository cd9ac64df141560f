/* SPDX-License-Identifier: MIT */
#include "record/session/stopper.h"

#include "record/session/process.h"
#include "target/process/stopper_halt.h"
#include "target/process/target.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>

#define FILES 3
#define LATE_MS 100 /* a tracer's time to end after it has let the threads go */
#define AUXV_MAX 128

/* ---- in the stopper ---- */

/*
 * Close everything of the tool: its terminal, its lock on the folder, its pipes that others wait
 * for.
 */
static void keep_only(int *fds[FILES])
{
	int null = open("/dev/null", O_RDWR);

	for (int i = 0; i < FILES; i++)
		*fds[i] = fcntl(*fds[i], F_DUPFD, 3 + FILES);
	for (int i = 0; i < FILES; i++) {
		dup2(null, i);
		dup2(*fds[i], 3 + i);
		*fds[i] = 3 + i;
	}
	close_range(3 + FILES, ~0u, 0);
}

static int is_sound(const struct stopper_job *job, ssize_t bytes)
{
	const struct stopper_request *request = &job->request;

	if (bytes < (ssize_t)sizeof(*request) || request->count > STOPPER_CHANGES_MAX ||
	    bytes != (ssize_t)(sizeof(*request) + request->count * sizeof(*job->changes)))
		return 0;
	for (uint32_t i = 0; i < request->count; i++) {
		const struct stopper_change *change = &job->changes[i];
		uint64_t first = change->address + change->at, last = first + change->count - 1;

		if (!change->count || change->at + change->count > change->bytes ||
		    change->bytes > STOPPER_BYTES || change->address > INT64_MAX - STOPPER_BYTES ||
		    first / STOPPER_PAGE_BYTES != last / STOPPER_PAGE_BYTES)
			return 0;
	}
	return 1;
}

/*
 * Wait for the tracer. Kill it if it takes too long, as when it was stopped: that lets the threads
 * go.
 */
static void await_end(pid_t child)
{
	struct pollfd end = { .fd = (int)syscall(SYS_pidfd_open, child, 0), .events = POLLIN };

	if (end.fd < 0 || poll(&end, 1, STOPPER_STOP_MAX_MS + LATE_MS) <= 0)
		kill(child, SIGKILL);
	if (end.fd >= 0)
		close(end.fd);
	while (waitpid(child, NULL, __WALL) < 0 && errno == EINTR)
		;
}

/* Whether the process executed another program or ended: then its old memory reads as empty. */
static int is_memory_gone(const struct stopper_target *target)
{
	char byte;

	return pread(target->memory, &byte, 1, 0) == 0;
}

static void serve_one(const struct stopper_target *target, struct stopper_job *job)
{
	pid_t stopper = getpid(), child;

	memset(&job->answer, 0, sizeof(job->answer));
	job->answer.error = -EAGAIN; /* if the tracer is killed */
	child = fork();
	if (!child) {
		/*
		 * if the stopper dies, no tracer may hold the threads when the agent sees its
		 * socket closed
		 */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() == stopper)
			stopper_halt(target, job);
		_exit(0);
	}
	if (child > 0)
		await_end(child);
}

static void serve(struct stopper_target target)
{
	struct stopper_job *job = mmap(NULL, sizeof(*job), PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const size_t room = sizeof(job->request) + sizeof(job->changes);
	sigset_t all;
	ssize_t got;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	signal(SIGCHLD, SIG_DFL);
	setsid();
	prctl(PR_SET_NAME, "waymark-stop");
	keep_only((int *[FILES]){ &target.socket, &target.tasks, &target.memory });
	if (job == MAP_FAILED || send(target.socket, "", 1, MSG_NOSIGNAL) != 1)
		_exit(1);
	while ((got = recv(target.socket, &job->request, room, 0)) > 0 && is_sound(job, got) &&
	       !is_memory_gone(&target)) {
		serve_one(&target, job);
		if (send(target.socket, &job->answer, sizeof(job->answer), MSG_NOSIGNAL) < 0)
			break;
	}
	_exit(0);
}

/* ---- in the tool ---- */

/* Whether that process itself made the socket pair. It may have passed the ends on since. */
static int is_its_own(int fd, pid_t pid, uid_t *maker)
{
	struct ucred peer = { 0 };
	int domain = 0, type = 0;
	socklen_t bytes = sizeof(peer), bytes_domain = sizeof(domain), bytes_type = sizeof(type);

	if (pid <= 0 || getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes_domain) ||
	    domain != AF_UNIX || getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes_type) ||
	    type != SOCK_SEQPACKET || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes))
		return 0;
	*maker = peer.uid;
	return peer.pid == pid;
}

/*
 * Open a file of the process's thread; never of another process that got the thread's number since.
 */
static int open_of(const struct stopper_target *target, pid_t tid, const char *name, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "%d/%s", (int)tid, name);
	return openat(target->tasks, path, flags | O_CLOEXEC);
}

/* Whether execve(2) gave its program privileges (set-user-ID and the like), or that is unknown. */
static int has_gained(const struct stopper_target *target, pid_t tid)
{
	int fd = open_of(target, tid, "auxv", O_RDONLY), gained = 1;
	Elf64_auxv_t entries[AUXV_MAX];
	ssize_t bytes = fd < 0 ? 0 : read(fd, entries, sizeof(entries));

	if (fd >= 0)
		close(fd);
	for (size_t i = 0; (ssize_t)((i + 1) * sizeof(*entries)) <= bytes; i++) {
		if (entries[i].a_type == AT_SECURE)
			gained = entries[i].a_un.a_val != 0;
	}
	return gained;
}

/*
 * We may be allowed to trace more than the requester. It may have passed its sockets on, and then
 * executed sudo(8) or ended: it must not get that process's memory changed.
 */
static int open_files(struct stopper_target *target, int pidfd, uid_t maker)
{
	struct pollfd end = { .fd = pidfd, .events = POLLIN };
	struct target about;
	char path[64];

	if (target_read(&about, target->pid))
		return -WM_E_GONE;
	snprintf(path, sizeof(path), "/proc/%d/task", (int)target->pid);
	target->tasks = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/*
	 * the kernel checks at open that we may trace the process; the descriptor stays with this
	 * memory
	 */
	target->memory = target->tasks < 0 ? -1 : open_of(target, about.live_tid, "mem", O_RDWR);
	if (target->memory < 0)
		return errno == EACCES ? -EPERM : -errno;
	/*
	 * checked after the open: it keeps the old memory if another program is executed after that
	 */
	if (about.uid != maker || has_gained(target, about.live_tid))
		return -EPERM;
	/* if it has ended, another process may have its number */
	return poll(&end, 1, 0) ? -WM_E_GONE : 0;
}

/*
 * A stopper outlives its process if that has passed its sockets on, and a process that connects
 * again may ask again. So count all that run.
 */
struct started {
	pid_t pid; /* 0: unused */
	uint64_t start_time;
};

static int is_over(const struct started *started)
{
	return !started->pid || target_start_time(started->pid) != started->start_time ||
	       !target_state_lives(target_thread_state(started->pid, started->pid));
}

/*
 * Get a free entry, in memory shared with the process that starts the stopper and fills it in.
 * NULL: too many stoppers run.
 */
static struct started *started_place(void)
{
	const size_t bytes = STOPPERS_ALL_MAX * sizeof(struct started);
	static struct started *all;
	static size_t next; /* where a free entry is likely */
	void *made = all;

	if (!all)
		made = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	all = made == MAP_FAILED ? NULL : made;
	for (size_t i = 0; all && i < STOPPERS_ALL_MAX; i++) {
		next = (next + 1) % STOPPERS_ALL_MAX;
		if (is_over(&all[next]))
			return &all[next];
	}
	return NULL;
}

/*
 * Fork twice: then init has to reap the stopper, and not this program, which may wait for any
 * child.
 */
static int fork_away(const struct stopper_target *target)
{
	struct started *place = started_place();
	pid_t child = place ? fork() : -1;

	if (!place)
		return -EAGAIN;
	if (!child) {
		child = fork();
		if (!child)
			serve(*target);
		if (child > 0)
			*place = (struct started){ child, target_start_time(child) };
		_exit(child < 0);
	}
	if (child < 0)
		return -errno;
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	return 0;
}

int stopper_start(pid_t pid, int pidfd, int fd)
{
	struct stopper_target target = { .pid = pid, .socket = fd, .tasks = -1, .memory = -1 };
	uid_t maker;
	int err = is_its_own(fd, pid, &maker) ? open_files(&target, pidfd, maker) : -WM_E_PROTOCOL;

	if (!err)
		err = fork_away(&target);
	if (target.tasks >= 0)
		close(target.tasks);
	if (target.memory >= 0)
		close(target.memory);
	return err;
}

void stopper_take(struct process *process, int fd)
{
	if (process->stoppers < STOPPERS_MAX && process_has_number(process))
		process->stoppers += !stopper_start(process->pid, process->pidfd, fd);
}
