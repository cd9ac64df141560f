/* SPDX-License-Identifier: MIT */
#include "target/process/borrow.h"
#include "base/elf.h"
#include "target/process/target.h"
#include "target/process/tracee.h"
#include "target/process/turns.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
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

int borrow_read(const struct borrow *borrow, uint64_t address, void *bytes, size_t count)
{
	ssize_t got = pread(borrow->mem, bytes, count, (off_t)address);

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

int borrow_write(const struct borrow *borrow, uint64_t address, const void *bytes, size_t count)
{
	ssize_t put = pwrite(borrow->mem, bytes, count, (off_t)address);

	if (put == (ssize_t)count)
		return 0;
	if (put == 0)
		return -ESRCH;
	return poke(borrow->tid, address, bytes, count);
}

/*
 * Is it inside a restartable sequence? include/uapi/linux/rseq.h: the area's second word points to
 * it.
 */
static int in_rseq(const struct borrow *borrow)
{
	struct rseq_configuration conf = { 0 };
	uint64_t sequence, bounds[3], pc = borrow_regs_pc(&borrow->saved);

	if (ptrace(GET_RSEQ_CONFIGURATION, borrow->tid, sizeof(conf), &conf) <= 0 || !conf.area)
		return 0;
	if (borrow_read(borrow, conf.area + 8, &sequence, sizeof(sequence)) || !sequence)
		return 0;
	/* version and flags, start, length, where to go when it is broken off */
	if (borrow_read(borrow, sequence + 8, bounds, sizeof(bounds)))
		return 0;
	return pc - bounds[0] < bounds[1];
}

static int dispatches_syscalls(const struct borrow *borrow)
{
	struct dispatch_configuration conf = { 0 };

	return !ptrace(GET_SYSCALL_USER_DISPATCH, borrow->tid, sizeof(conf), &conf) && conf.mode;
}

static int loan_check(struct borrow *borrow)
{
	char path[64];
	int err = borrow_regs_get(borrow->tid, &borrow->saved);

	if (err)
		return err == -ENOTSUP ? -EOPNOTSUPP : err;
	if (ptrace(PTRACE_GETSIGMASK, borrow->tid, sizeof(borrow->mask), &borrow->mask))
		return -errno;
	/* Opened now: while the thread is stopped, its process executes no other program. */
	snprintf(path, sizeof(path), "/proc/%d/mem", borrow->tid);
	borrow->mem = open(path, O_RDWR | O_CLOEXEC);
	if (borrow->mem < 0)
		return -errno;
	/* Also where nothing comes of the loan: the stop alone would have cut the call short. */
	if (borrow_regs_restart(&borrow->saved))
		borrow_regs_set(borrow->tid, &borrow->saved);
	if (dispatches_syscalls(borrow))
		return -EOPNOTSUPP;
	return in_rseq(borrow) ? -EAGAIN : 0;
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

int borrow_stop(struct borrow *borrow, pid_t tid, uint64_t deadline_ns)
{
	int err;

	*borrow = (struct borrow){ .tid = tid, .mem = -1 };
	err = tracee_seize(tid);
	if (err)
		return err;
	err = tracee_stop(tid, deadline_ns);
	if (err)
		return err;
	borrow->seized = 1;
	err = faults_deliver(tid, deadline_ns);
	if (!err)
		err = loan_check(borrow);
	if (err)
		borrow_end(borrow);
	return err;
}

/*
 * Is there code of a tool that died in the middle? Its thread may yet need it: it may not have run
 * since, or sit in a signal handler on top of it.
 */
static int is_taken(const struct borrow *borrow, uint64_t place)
{
	unsigned char head[BORROW_HEAD_BYTES];

	return borrow_read(borrow, place, head, sizeof(head)) ||
	       !memcmp(head, borrow_code_head(), sizeof(head));
}

/* Where a segment's bytes end inside its last page: the rest of that page is free. */
static uint64_t segment_room(const struct borrow *borrow, const struct elf *elf,
			     const Elf64_Phdr *text)
{
	uint64_t end = elf->base + text->p_vaddr + text->p_filesz;
	uint64_t page_end = (end + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;

	if (text->p_type != PT_LOAD || !(text->p_flags & PF_X) || text->p_memsz != text->p_filesz)
		return 0;
	for (uint64_t place = (end + 15) & ~UINT64_C(15);
	     place < page_end && page_end - place >= borrow_code_bytes();
	     place += (borrow_code_bytes() + 15) & ~UINT64_C(15))
		if (!is_taken(borrow, place))
			return place;
	return 0;
}

/* In the module whose first mapping this is. 0: it has no room. */
static uint64_t module_room(const struct borrow *borrow, const struct maps *maps,
			    const struct map *first)
{
	uint64_t place = 0;
	struct elf elf;

	if (!elf_open_memory(&elf, borrow->mem, first->start)) {
		for (size_t i = 0; i < elf.segment_count && !place; i++) {
			uint64_t room = segment_room(borrow, &elf, &elf.segments[i]);
			const struct map *map = room ? maps_find(maps, room) : NULL;

			if (map && map->prot & PROT_EXEC && map->inode == first->inode &&
			    !map->shared)
				place = room;
		}
	}
	elf_release(&elf);
	return place;
}

static int place_write(struct borrow *borrow, uint64_t place)
{
	unsigned char code[BORROW_CODE_BYTES] = { 0 };
	size_t bytes = borrow_code_bytes();
	int err = borrow_read(borrow, place, borrow->stood, bytes);

	if (err)
		return err;
	borrow_code_fill(code, &borrow->saved, borrow->mask);
	borrow->at = borrow->place = place;
	return borrow_write(borrow, place, code, bytes);
}

static void turns_end(struct borrow *borrow)
{
	turns_close(borrow->turns);
	borrow->turns = -1;
}

int borrow_place(struct borrow *borrow, const struct maps *maps)
{
	uint64_t place = 0;
	int err;

	borrow->turns = turns_open(borrow->tid);
	if (borrow->turns < 0)
		return borrow->turns;
	err = turns_take(borrow->turns);
	for (size_t i = 0; i < maps->count && !place && !err; i++) {
		const struct map *map = &maps->list[i];

		if (!map->offset && map->inode && !map->shared && map->prot & PROT_READ)
			place = module_room(borrow, maps, map);
	}
	if (!err)
		err = place ? place_write(borrow, place) : -ENOSPC;
	if (borrow->place)
		turns_leave(borrow->turns);
	else
		turns_end(borrow);
	return err;
}

int borrow_vacate(struct borrow *borrow)
{
	int err = 0;

	if (!borrow->place)
		return 0;
	/*
	 * Another tool that looks meanwhile must not find half of this code, and take it for the
	 * original bytes.
	 */
	if (borrow->turns < 0 || !turns_take(borrow->turns))
		err = borrow_write(borrow, borrow->place, borrow->stood, borrow_code_bytes());
	borrow->place = 0;
	turns_end(borrow);
	return err;
}

static int is_fault(int signal)
{
	return signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGTRAP ||
	       signal == SIGFPE || signal == SIGSYS;
}

/* To the call's entry, then to its exit. Only SIGSTOP and SIGKILL can come between. */
static int call_finish(struct borrow *borrow)
{
	uint64_t deadline_ns = tracee_deadline(CALL_WAIT_MS);
	int pass = 0;

	for (int stops = 0; stops < 2;) {
		int signal, stop;

		if (ptrace(PTRACE_SYSCALL, borrow->tid, NULL, pass))
			return -ESRCH;
		stop = tracee_wait(borrow->tid, deadline_ns, &signal);
		if (stop < 0)
			return stop;
		pass = stop == TRACEE_SIGNAL ? signal : 0;
		if (pass && is_fault(pass))
			return -EINTR;
		stops += stop == TRACEE_SYSCALL;
	}
	return 0;
}

int borrow_run(struct borrow *borrow, const struct borrow_regs *regs, long *result)
{
	const uint64_t all = ~UINT64_C(0);
	struct borrow_regs after;
	int err = borrow_regs_set(borrow->tid, regs);

	if (err)
		return err;
	borrow->is_stopped = 0;
	if (!borrow->entered) {
		borrow->entered = 1;
		if (ptrace(PTRACE_SETSIGMASK, borrow->tid, sizeof(all), &all))
			return -errno;
	}
	err = call_finish(borrow);
	if (!err)
		err = borrow_regs_get(borrow->tid, &after);
	if (!err)
		*result = borrow_regs_result(&after);
	return err;
}

int borrow_syscall(struct borrow *borrow, long number, const uint64_t arguments[6], long *result)
{
	struct borrow_regs regs;

	borrow_regs_call(&regs, &borrow->saved, borrow->at, number, arguments);
	return borrow_run(borrow, &regs, result);
}

int borrow_move(struct borrow *borrow, uint64_t at)
{
	const uint64_t none[6] = { 0 };
	struct borrow_regs regs;
	int err;

	/* If we die here, the thread makes a call that does nothing, then restores itself. */
	borrow_regs_call(&regs, &borrow->saved, at, SYS_getpid, none);
	err = borrow_regs_set(borrow->tid, &regs);
	if (err)
		return err;
	borrow->at = at;
	return borrow_vacate(borrow);
}

int borrow_return(struct borrow *borrow)
{
	uint64_t deadline_ns = tracee_deadline(CALL_WAIT_MS);
	int stop = TRACEE_SYSCALL, signal = 0, err;

	if (!borrow->entered)
		return 0;
	while (!borrow->is_stopped && stop != TRACEE_INTERRUPTED && stop != TRACEE_GROUP_STOP) {
		if (stop == TRACEE_SIGNAL && is_fault(signal))
			stop = TRACEE_OTHER; /* our own code's: not for the program */
		err = tracee_interrupt(borrow->tid, stop, signal);
		if (err)
			return err;
		stop = tracee_wait(borrow->tid, deadline_ns, &signal);
		if (stop < 0)
			return stop;
	}
	/* The mask first: see the head of borrow.h. */
	if (ptrace(PTRACE_SETSIGMASK, borrow->tid, sizeof(borrow->mask), &borrow->mask))
		return -errno;
	err = borrow_regs_set(borrow->tid, &borrow->saved);
	if (!err)
		borrow->entered = 0;
	return err;
}

int borrow_end(struct borrow *borrow)
{
	int err;

	if (!borrow->seized)
		return 0;
	err = borrow_return(borrow);
	/* Where it could not be brought back, it has to do so by itself, with the code in place. */
	if (!err)
		borrow_vacate(borrow);
	else if (borrow->place)
		turns_end(borrow);
	tracee_detach(borrow->tid);
	if (borrow->mem >= 0)
		close(borrow->mem);
	*borrow = (struct borrow){ .mem = -1 };
	return err;
}
