/* SPDX-License-Identifier: MIT */
#include "target/process/remote_thread.h"

#include "base/elf.h"
#include "target/process/target.h"
#include "target/process/tracee.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define CALL_WAIT_MS 10000 /* the process's memory may be locked for long by threads of its own */
#define DELIVER_MS 100
#define PAGE_BYTES 4096u

/* linux/ptrace.h, from Linux 5.13 and 6.4; older headers lack them. */
#define GET_RSEQ_CONFIGURATION 0x420f
#define GET_SYSCALL_USER_DISPATCH 0x4211

struct rseq_configuration {
	uint64_t area;
	uint32_t bytes, signature, flags, pad;
};

struct dispatch_configuration {
	uint64_t mode, selector, offset, bytes;
};

int remote_thread_read(const struct remote_thread *remote, uint64_t address, void *bytes,
		       size_t count)
{
	ssize_t got = pread(remote->mem, bytes, count, (off_t)address);

	if (got < 0)
		return -errno;
	return got == (ssize_t)count ? 0 : -ESRCH; /* 0: the address space is gone */
}

/* For kernels that let no /proc/PID/mem write past protection: the tracer itself still may. */
static int poke(pid_t tid, uint64_t address, const void *bytes, size_t count)
{
	for (size_t done = 0; done < count; done += sizeof(long)) {
		size_t part = count - done < sizeof(long) ? count - done : sizeof(long);
		long word;

		errno = 0;
		word = ptrace(PTRACE_PEEKDATA, tid, address + done, NULL);
		if (word == -1 && errno)
			return -errno;
		memcpy(&word, (const char *)bytes + done, part);
		if (ptrace(PTRACE_POKEDATA, tid, address + done, word))
			return -errno;
	}
	return 0;
}

int remote_thread_write(const struct remote_thread *remote, uint64_t address, const void *bytes,
			size_t count)
{
	ssize_t put = pwrite(remote->mem, bytes, count, (off_t)address);

	if (put == (ssize_t)count)
		return 0;
	if (put == 0)
		return -ESRCH;
	return poke(remote->tid, address, bytes, count);
}

/*
 * Is it inside a restartable sequence? include/uapi/linux/rseq.h: the area's second word points to
 * it.
 */
static int in_rseq(const struct remote_thread *remote)
{
	struct rseq_configuration conf = { 0 };
	uint64_t sequence, bounds[3], pc = halt_pc(&remote->saved);

	if (ptrace(GET_RSEQ_CONFIGURATION, remote->tid, sizeof(conf), &conf) <= 0 || !conf.area)
		return 0;
	if (remote_thread_read(remote, conf.area + 8, &sequence, sizeof(sequence)) || !sequence)
		return 0;
	/* version and flags, start, length, where to go when it is broken off */
	if (remote_thread_read(remote, sequence + 8, bounds, sizeof(bounds)))
		return 0;
	return pc - bounds[0] < bounds[1];
}

static int dispatches_syscalls(const struct remote_thread *remote)
{
	struct dispatch_configuration conf = { 0 };

	return !ptrace(GET_SYSCALL_USER_DISPATCH, remote->tid, sizeof(conf), &conf) && conf.mode;
}

static int remote_check(struct remote_thread *remote)
{
	char path[64];
	int err = halt_regs_get(remote->tid, &remote->saved);

	if (err)
		return err == -ENOTSUP ? -EOPNOTSUPP : err;
	if (ptrace(PTRACE_GETSIGMASK, remote->tid, sizeof(remote->mask), &remote->mask))
		return -errno;
	/* Opened now: while the thread is stopped, its process executes no other program. */
	snprintf(path, sizeof(path), "/proc/%d/mem", remote->tid);
	remote->mem = open(path, O_RDWR | O_CLOEXEC);
	if (remote->mem < 0)
		return -errno;
	/* Also where nothing comes of the loan: the stop alone would have cut the call short. */
	if (halt_restart(&remote->saved, 0))
		halt_regs_set(remote->tid, &remote->saved);
	if (dispatches_syscalls(remote))
		return -EOPNOTSUPP;
	return in_rseq(remote) ? -EAGAIN : 0;
}

#define BIT(signal) (UINT64_C(1) << ((signal)-1))

/* Raised by its own last instruction, and not yet delivered. */
static int is_fault_pending(pid_t tid)
{
	const uint64_t faults = BIT(SIGSEGV) | BIT(SIGBUS) | BIT(SIGILL) | BIT(SIGTRAP) |
				BIT(SIGFPE) | BIT(SIGSYS);

	return (target_status_mask(tid, "SigPnd") & ~target_status_mask(tid, "SigBlk") & faults) !=
	       0;
}

/*
 * The kernel stops the thread before it delivers a fault's signal (kernel/signal.c, get_signal()).
 * The handler would then see the thread where we have put it, so we let the handler begin first.
 * Other signals may come anywhere.
 */
static int faults_deliver(pid_t tid, uint64_t deadline_ns)
{
	int err = 0;

	while (!err && is_fault_pending(tid)) {
		int signal, stop;

		if (tracee_late(deadline_ns))
			return -ETIMEDOUT;
		/* without PTRACE_INTERRUPT, which would stop it before the signal again */
		if (ptrace(PTRACE_CONT, tid, NULL, NULL))
			return -ESRCH;
		stop = tracee_wait(tid, tracee_deadline(DELIVER_MS), &signal);
		if (stop > 0)
			err = tracee_interrupt(tid, stop, signal);
		else if (stop != -ETIMEDOUT)
			err = stop;
		else if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL)) /* another took it back */
			err = -ESRCH;
		if (!err)
			err = tracee_stop(tid, deadline_ns);
	}
	return err;
}

int remote_thread_stop(struct remote_thread *remote, pid_t tid, uint64_t deadline_ns)
{
	int err;

	*remote = (struct remote_thread){ .tid = tid, .mem = -1 };
	err = tracee_seize(tid);
	if (err)
		return err;
	err = tracee_stop(tid, deadline_ns);
	if (err)
		return err;
	remote->seized = 1;
	err = faults_deliver(tid, deadline_ns);
	if (!err)
		err = remote_check(remote);
	if (err)
		remote_thread_end(remote);
	return err;
}

/*
 * Is there code of a tool that died in the middle? Its thread may yet need it: it may not have run
 * since, or sit in a signal handler on top of it.
 */
static int is_taken(const struct remote_thread *remote, uint64_t place)
{
	unsigned char head[REMOTE_HEAD_BYTES];

	return remote_thread_read(remote, place, head, sizeof(head)) ||
	       !memcmp(head, remote_code_head(), sizeof(head));
}

/* Where a segment's bytes end inside its last page: the rest of that page is free. */
static uint64_t segment_room(const struct remote_thread *remote, const struct elf *elf,
			     const Elf64_Phdr *text)
{
	uint64_t end = elf->base + text->p_vaddr + text->p_filesz;
	uint64_t page_end = (end + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;

	if (text->p_type != PT_LOAD || !(text->p_flags & PF_X) || text->p_memsz != text->p_filesz)
		return 0;
	for (uint64_t place = (end + 15) & ~UINT64_C(15);
	     place < page_end && page_end - place >= remote_code_bytes();
	     place += (remote_code_bytes() + 15) & ~UINT64_C(15))
		if (!is_taken(remote, place))
			return place;
	return 0;
}

/* In the module whose first mapping this is. 0: it has no room. */
static uint64_t module_room(const struct remote_thread *remote, const struct maps *maps,
			    const struct map *first)
{
	uint64_t place = 0;
	struct elf elf;

	if (!elf_open_memory(&elf, remote->mem, first->start)) {
		for (size_t i = 0; i < elf.segment_count && !place; i++) {
			uint64_t room = segment_room(remote, &elf, &elf.segments[i]);
			const struct map *map = room ? maps_find(maps, room) : NULL;

			if (map && map->prot & PROT_EXEC && map->inode == first->inode &&
			    !map->shared)
				place = room;
		}
	}
	elf_release(&elf);
	return place;
}

static int place_write(struct remote_thread *remote, uint64_t place)
{
	unsigned char code[REMOTE_CODE_BYTES] = { 0 };
	size_t bytes = remote_code_bytes();
	int err = remote_thread_read(remote, place, remote->stood, bytes);

	if (err)
		return err;
	remote_code_fill(code, &remote->saved, remote->mask);
	remote->at = remote->place = place;
	return remote_thread_write(remote, place, code, bytes);
}

/*
 * Where tools that enter one process take turns, for microseconds each: a flock(2) of
 * /proc/PID/task/TID/fd, of the oldest thread that lives. Whoever may not trace the process can't
 * open that; the kernel takes the turn from a tool that dies; and nothing is left behind.
 *
 * Not covered: tools that see the process through two mounts of proc, which have a file each, and
 * the oldest thread's end between the looks of two tools.
 */

/* the lock's holder needs only a processor; a thread of the program is stopped meanwhile */
#define LOCK_WAIT_MS 20
#define LOCK_PAUSE_NS 50000

/*
 * What an ended thread has in /proc is root's, so of an ended first thread none is to be had. 0:
 * none lives.
 */
static pid_t oldest_live(pid_t pid)
{
	pid_t *tids = NULL, oldest = 0;
	int count;

	if (target_state_lives(target_thread_state(pid, pid)))
		return pid;
	count = target_threads(pid, &tids);
	for (int i = 0; i < count && !oldest; i++)
		if (target_state_lives(target_thread_state(pid, tids[i])))
			oldest = tids[i];
	if (count >= 0)
		free(tids);
	return oldest;
}

/* The turns at a thread's process: a descriptor, or -errno. */
static int tool_lock_open(pid_t tid)
{
	pid_t pid = (pid_t)target_status_number(tid, "Tgid"), oldest;
	char path[64];
	int fd, err;

	do {
		oldest = oldest_live(pid);
		if (!oldest)
			return -ESRCH;
		snprintf(path, sizeof(path), "/proc/%d/task/%d/fd", pid, oldest);
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		err = -errno;
	} while (fd < 0 && !target_state_lives(target_thread_state(pid, oldest)));
	return fd < 0 ? err : fd;
}

/* 0: it is our turn, until LOCK_UN; -EBUSY: it is another's, and stays so. */
static int tool_lock_try(int lock)
{
	uint64_t deadline_ns = tracee_deadline(LOCK_WAIT_MS);

	while (flock(lock, LOCK_EX | LOCK_NB)) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		if (tracee_late(deadline_ns))
			return -EBUSY;
		nanosleep(&(struct timespec){ .tv_nsec = LOCK_PAUSE_NS }, NULL);
	}
	return 0;
}

static void lock_end(struct remote_thread *remote)
{
	/* a child that somebody has forked meanwhile has the descriptor, and would keep the turn */
	if (remote->lock >= 0) {
		flock(remote->lock, LOCK_UN);
		close(remote->lock);
	}
	remote->lock = -1;
}

int remote_thread_place(struct remote_thread *remote, const struct maps *maps)
{
	uint64_t place = 0;
	int err;

	remote->lock = tool_lock_open(remote->tid);
	if (remote->lock < 0)
		return remote->lock;
	err = tool_lock_try(remote->lock);
	for (size_t i = 0; i < maps->count && !place && !err; i++) {
		const struct map *map = &maps->list[i];

		if (!map->offset && map->inode && !map->shared && map->prot & PROT_READ)
			place = module_room(remote, maps, map);
	}
	if (!err)
		err = place ? place_write(remote, place) : -ENOSPC;
	if (remote->place)
		flock(remote->lock, LOCK_UN);
	else
		lock_end(remote);
	return err;
}

int remote_thread_vacate(struct remote_thread *remote)
{
	int err = 0;

	if (!remote->place)
		return 0;
	/*
	 * Another tool that looks meanwhile must not find half of this code, and take it for the
	 * original bytes.
	 */
	if (remote->lock < 0 || !tool_lock_try(remote->lock))
		err = remote_thread_write(remote, remote->place, remote->stood,
					  remote_code_bytes());
	remote->place = 0;
	lock_end(remote);
	return err;
}

static int is_fault(int signal)
{
	return signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGTRAP ||
	       signal == SIGFPE || signal == SIGSYS;
}

/* To the call's entry, then to its exit. Only SIGSTOP and SIGKILL can come between. */
static int call_finish(struct remote_thread *remote)
{
	uint64_t deadline_ns = tracee_deadline(CALL_WAIT_MS);
	int pass = 0;

	for (int stops = 0; stops < 2;) {
		int signal, stop;

		if (ptrace(PTRACE_SYSCALL, remote->tid, NULL, pass))
			return -ESRCH;
		stop = tracee_wait(remote->tid, deadline_ns, &signal);
		if (stop < 0)
			return stop;
		pass = stop == TRACEE_SIGNAL ? signal : 0;
		if (pass && is_fault(pass))
			return -EINTR;
		stops += stop == TRACEE_SYSCALL;
	}
	return 0;
}

int remote_thread_run(struct remote_thread *remote, const struct halt_regs *regs, long *result)
{
	const uint64_t all = ~UINT64_C(0);
	struct halt_regs after;
	int err = halt_regs_set(remote->tid, regs);

	if (err)
		return err;
	remote->is_stopped = 0;
	if (!remote->entered) {
		remote->entered = 1;
		if (ptrace(PTRACE_SETSIGMASK, remote->tid, sizeof(all), &all))
			return -errno;
	}
	err = call_finish(remote);
	if (!err)
		err = halt_regs_get(remote->tid, &after);
	if (!err)
		*result = remote_regs_result(&after);
	return err;
}

int remote_thread_syscall(struct remote_thread *remote, long number, const uint64_t arguments[6],
			  long *result)
{
	struct halt_regs regs;

	remote_regs_call(&regs, &remote->saved, remote->at, number, arguments);
	return remote_thread_run(remote, &regs, result);
}

int remote_thread_move(struct remote_thread *remote, uint64_t at)
{
	const uint64_t none[6] = { 0 };
	struct halt_regs regs;
	int err;

	/* If we die here, the thread makes a call that does nothing, then restores itself. */
	remote_regs_call(&regs, &remote->saved, at, SYS_getpid, none);
	err = halt_regs_set(remote->tid, &regs);
	if (err)
		return err;
	remote->at = at;
	return remote_thread_vacate(remote);
}

int remote_thread_return(struct remote_thread *remote)
{
	uint64_t deadline_ns = tracee_deadline(CALL_WAIT_MS);
	int stop = TRACEE_SYSCALL, signal = 0, err;

	if (!remote->entered)
		return 0;
	while (!remote->is_stopped && stop != TRACEE_INTERRUPTED && stop != TRACEE_GROUP_STOP) {
		if (stop == TRACEE_SIGNAL && is_fault(signal))
			stop = TRACEE_OTHER; /* our own code's: not for the program */
		err = tracee_interrupt(remote->tid, stop, signal);
		if (err)
			return err;
		stop = tracee_wait(remote->tid, deadline_ns, &signal);
		if (stop < 0)
			return stop;
	}
	/* The mask first: see the head of remote_thread.h. */
	if (ptrace(PTRACE_SETSIGMASK, remote->tid, sizeof(remote->mask), &remote->mask))
		return -errno;
	err = halt_regs_set(remote->tid, &remote->saved);
	if (!err)
		remote->entered = 0;
	return err;
}

int remote_thread_end(struct remote_thread *remote)
{
	int err;

	if (!remote->seized)
		return 0;
	err = remote_thread_return(remote);
	/* Where it could not be brought back, it has to do so by itself, with the code in place. */
	if (!err)
		remote_thread_vacate(remote);
	else if (remote->place)
		lock_end(remote);
	tracee_detach(remote->tid);
	if (remote->mem >= 0)
		close(remote->mem);
	*remote = (struct remote_thread){ .mem = -1 };
	return err;
}
