/* SPDX-License-Identifier: MIT */
/*
 * A tracer thread holds the stop: it seizes, waits, and detaches when told to; ptrace(2) wants all
 * that from one thread. When it ends, the kernel detaches the rest.
 */
#include "target/process/stop_threads.h"

#include "arch/remote_syscall.h"
#include "base/halt_threads.h"
#include "target/process/tracee.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <waymark/error.h>

#define STOP_WAIT_MS 2000
#define THREADS_MAX (1u << 20)

struct stop {
	pthread_t thread;
	sem_t held, resume;
	int result;
	struct halt_threads halt;
};

/* Some calls would return for the stop alone; the others restart by themselves. */
static void call_keep(pid_t tid)
{
	struct halt_regs regs;

	if (!halt_regs_get(tid, &regs) && halt_restart(&regs, 0))
		halt_regs_set(tid, &regs);
}

static int stop_all(struct halt_threads *halt)
{
	char path[64];
	int err;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)halt->pid);
	halt->tasks_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	err = halt->tasks_fd < 0 ? -errno : halt_threads_stop(halt);
	for (uint32_t i = 0; i < halt->count && !err; i++) {
		if (halt->threads[i].is_in_group_stop)
			err = -WM_E_STOPPED;
		else if (halt->threads[i].is_stopped)
			call_keep(halt->threads[i].tid);
	}
	return err == -ENOENT ? -ESRCH : err;
}

static void *stop_thread(void *arg)
{
	const size_t each = sizeof(struct halt_thread) + 2 * sizeof(uint32_t);
	struct stop *stop = arg;
	struct halt_threads *halt = &stop->halt;
	/* zeroed; takes memory where it is written to */
	void *room = mmap(NULL, THREADS_MAX * each, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	halt->patience_ns = halt->deadline_ns = tracee_deadline(STOP_WAIT_MS);
	halt->threads = room;
	halt->slots = (uint32_t *)(halt->threads + THREADS_MAX);
	halt->room = THREADS_MAX;
	halt->slot_mask = 2 * THREADS_MAX - 1;
	stop->result = room == MAP_FAILED ? -ENOMEM : stop_all(halt);
	sem_post(&stop->held);
	while (!stop->result && sem_wait(&stop->resume) && errno == EINTR)
		;
	halt_threads_resume(halt);
	if (halt->tasks_fd >= 0)
		close(halt->tasks_fd);
	if (room != MAP_FAILED)
		munmap(room, THREADS_MAX * each);
	return NULL;
}

static void stop_free(struct stop *stop)
{
	pthread_join(stop->thread, NULL);
	sem_destroy(&stop->held);
	sem_destroy(&stop->resume);
	free(stop);
}

int stop_threads(pid_t pid, pid_t keep_tid, struct stop **stop)
{
	struct stop *new = calloc(1, sizeof(*new));
	int err;

	*stop = NULL;
	if (!new)
		return -ENOMEM;
	new->halt.pid = pid;
	new->halt.keep_tid = keep_tid;
	new->halt.tasks_fd = -1;
	sem_init(&new->held, 0, 0);
	sem_init(&new->resume, 0, 0);
	err = -pthread_create(&new->thread, NULL, stop_thread, new);
	if (err) {
		free(new);
		return err;
	}
	while (sem_wait(&new->held) && errno == EINTR)
		;
	err = new->result;
	if (err)
		stop_free(new);
	else
		*stop = new;
	return err;
}

void stop_resume(struct stop *stop)
{
	if (!stop)
		return;
	sem_post(&stop->resume);
	stop_free(stop);
}
