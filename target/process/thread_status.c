/* SPDX-License-Identifier: MIT */
#include "target/process/thread_status.h"

#include "target/process/target.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* proc(5): the first word of one of a thread's files; "" where it may not be read. */
static void word_read(pid_t pid, pid_t tid, const char *name, char *word, size_t bytes)
{
	char path[64];
	ssize_t got = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", (int)pid, (int)tid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		got = read(fd, word, bytes - 1);
		close(fd);
	}
	word[got > 0 ? got : 0] = '\0';
	word[strcspn(word, " \n")] = '\0';
}

static const char *state_words(char state)
{
	switch (state) {
	case 'R':
		return "it runs, or waits for a processor";
	case 'S':
	case 'I':
		return "it sleeps";
	case 'D':
		return "it sleeps, and no signal wakes it";
	case 'T':
		return "it is stopped";
	case 't':
		return "its tracer has stopped it";
	default:
		return "it has ended";
	}
}

void thread_status_text(pid_t pid, pid_t tid, char *words, size_t bytes)
{
	char state = target_thread_state(pid, tid), call[32], where[64];
	struct target_times times;
	size_t used;

	*words = '\0';
	if (!state)
		return;
	word_read(pid, tid, "syscall", call, sizeof(call));
	word_read(pid, tid, "wchan", where, sizeof(where));
	used = (size_t)snprintf(words, bytes, "%s", state_words(state));
	/*
	 * "running" is what the file says of one that runs, "-1" of one that a fault brought into
	 * the kernel
	 */
	if (used < bytes && call[0] >= '0' && call[0] <= '9')
		used += (size_t)snprintf(words + used, bytes - used, " in system call %s", call);
	if (used < bytes && where[0] && strcmp(where, "0"))
		used += (size_t)snprintf(words + used, bytes - used, " (%s)", where);
	if (used < bytes && !target_thread_times(pid, tid, &times))
		snprintf(words + used, bytes - used,
			 ", has run %.1f ms and waited %.1f ms for a processor",
			 (double)times.ran_ns / 1e6, (double)times.waited_ns / 1e6);
}
