/* SPDX-License-Identifier: MIT */
#include "target/process/entry.h"

#include "target/process/target.h"
#include "target/process/tracee.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>

#define WAIT_MS 30000 /* for a large program's libraries, from a slow disk */
#define INT3 0xccul
#define REGISTER_AT(name)                                                                          \
	((void *)offsetof(struct user, regs.name)) /* as PTRACE_PEEKUSER wants it */

struct entry {
	const char *path;
	char *const *argv;
	sigset_t mask; /* the caller's, and so the program's */
	pid_t pid;
	pthread_t thread;
	sem_t held, resume;
	int result, is_unwanted;
};

/* ---- the tracer ---- */

static int start(struct entry *entry)
{
	int ends[2], failure = 0;
	ssize_t got;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	entry->pid = fork();
	if (entry->pid == 0) {
		pthread_sigmask(SIG_SETMASK, &entry->mask, NULL);
		if (!ptrace(PTRACE_TRACEME, 0, NULL, NULL))
			execv(entry->path, entry->argv);
		failure = errno;
		(void)!write(ends[1], &failure, sizeof(failure));
		_exit(127);
	}
	failure = entry->pid < 0 ? errno : 0;
	close(ends[1]);
	/* it closes when execve(2) has succeeded */
	while (entry->pid > 0 && (got = read(ends[0], &failure, sizeof(failure))) < 0 &&
	       errno == EINTR)
		;
	close(ends[0]);
	return -failure;
}

/* Until it gets SIGTRAP: 0. Other signals are its own. */
static int run_to_trap(const struct entry *entry)
{
	uint64_t deadline = tracee_deadline(WAIT_MS);

	for (;;) {
		int signal = 0, stop = tracee_wait(entry->pid, deadline, &signal);

		if (stop < 0)
			return stop == -ESRCH ? -WM_E_GONE : stop;
		if (stop == TRACEE_SIGNAL && signal == SIGTRAP)
			return 0;
		if (ptrace(PTRACE_CONT, entry->pid, NULL, stop == TRACEE_SIGNAL ? signal : 0))
			return -WM_E_GONE;
	}
}

/* The kernel forces a breakpoint's SIGTRAP on who ignores or blocks it, and that would stay so. */
static int takes_trap(pid_t pid)
{
	uint64_t bit = UINT64_C(1) << (SIGTRAP - 1);

	return !((target_status_mask(pid, "SigIgn") | target_status_mask(pid, "SigBlk")) & bit);
}

/*
 * Run from the stop behind execve(2) to the entry, by a breakpoint there that is removed again. Not
 * by a debug register: the kernel would keep it reserved.
 */
static int run_to_entry(const struct entry *entry)
{
	uint64_t at = 0;
	long word, rip;
	void *place;
	int err;

	target_auxv(entry->pid, AT_ENTRY, &at);
	if (!at || !takes_trap(entry->pid))
		return 0;   /* it is at its beginning already */
	place = (void *)at; /* NOLINT(performance-no-int-to-ptr) */
	errno = 0;
	word = ptrace(PTRACE_PEEKTEXT, entry->pid, place, NULL);
	if (errno ||
	    ptrace(PTRACE_POKETEXT, entry->pid, place, ((unsigned long)word & ~0xfful) | INT3))
		return 0;
	if (ptrace(PTRACE_CONT, entry->pid, NULL, 0))
		return -WM_E_GONE;
	err = run_to_trap(entry);
	if (err)
		return err;
	rip = ptrace(PTRACE_PEEKUSER, entry->pid, REGISTER_AT(rip), NULL);
	if ((uint64_t)rip != at + 1)
		return -WM_E_GONE; /* a preloaded library executed something else */
	if (ptrace(PTRACE_POKETEXT, entry->pid, place, word) ||
	    ptrace(PTRACE_POKEUSER, entry->pid, REGISTER_AT(rip), at))
		return -WM_E_GONE;
	return 0;
}

static void *hold(void *arg)
{
	struct entry *entry = arg;
	int err = start(entry);

	if (!err)
		err = run_to_trap(entry); /* execve(2)'s own */
	if (!err)
		ptrace(PTRACE_SETOPTIONS, entry->pid, NULL, PTRACE_O_EXITKILL);
	if (!err)
		err = run_to_entry(entry);
	entry->result = err;
	sem_post(&entry->held);
	while (!err && sem_wait(&entry->resume) && errno == EINTR)
		;
	if (err || entry->is_unwanted) {
		if (entry->pid > 0)
			kill(entry->pid, SIGKILL);
	} else {
		tracee_detach(entry->pid);
	}
	return NULL;
}

/* ---- */

static void end(struct entry **entry)
{
	pthread_join((*entry)->thread, NULL);
	sem_destroy(&(*entry)->held);
	sem_destroy(&(*entry)->resume);
	free(*entry);
	*entry = NULL;
}

int entry_launch(struct entry **out, pid_t *pid, const char *path, char *const argv[])
{
	struct entry *entry = calloc(1, sizeof(*entry));
	sigset_t all, mask;
	int err;

	*out = NULL;
	if (!entry)
		return -ENOMEM;
	entry->path = path;
	entry->argv = argv;
	sem_init(&entry->held, 0, 0);
	sem_init(&entry->resume, 0, 0);
	/* the caller's signals are for the caller's threads */
	sigfillset(&all);
	sigdelset(&all, SIGCHLD);
	pthread_sigmask(SIG_BLOCK, &all, &entry->mask);
	mask = entry->mask;
	err = -pthread_create(&entry->thread, NULL, hold, entry);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	if (err) {
		free(entry);
		return err;
	}
	while (sem_wait(&entry->held) && errno == EINTR)
		;
	*pid = entry->pid;
	err = entry->result;
	*out = entry;
	if (!err)
		return 0;
	end(out);
	while (*pid > 0 && waitpid(*pid, NULL, 0) < 0 && errno == EINTR)
		;
	return err;
}

void entry_go(struct entry **entry)
{
	if (!*entry)
		return;
	sem_post(&(*entry)->resume);
	end(entry);
}

void entry_kill(struct entry **entry)
{
	if (!*entry)
		return;
	(*entry)->is_unwanted = 1;
	entry_go(entry);
}
