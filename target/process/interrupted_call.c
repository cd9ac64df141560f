/* SPDX-License-Identifier: MIT */
#include "target/process/interrupted_call.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define STACK_WORDS_MAX 8192u /* a deeper one is not looked through */
#define CALLER_WORDS 64	      /* of a stack, for return addresses into the allocator */

/*
 * Not read(2), write(2) and their like: glibc's allocator counts processors in /sys, and reports
 * damage before it aborts.
 */
static int is_none_of_malloc(long number)
{
	switch (number) {
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
	case SYS_poll:
	case SYS_ppoll:
	case SYS_select:
	case SYS_pselect6:
	case SYS_accept:
	case SYS_accept4:
	case SYS_connect:
	case SYS_recvfrom:
	case SYS_recvmsg:
	case SYS_sendto:
	case SYS_sendmsg:
	case SYS_semop:
	case SYS_semtimedop:
	case SYS_msgrcv:
	case SYS_msgsnd:
	case SYS_nanosleep:
	case SYS_clock_nanosleep:
	case SYS_wait4:
	case SYS_waitid:
	case SYS_pause:
	case SYS_rt_sigsuspend:
	case SYS_rt_sigtimedwait:
	case SYS_pread64:
	case SYS_pwrite64:
	case SYS_fsync:
	case SYS_fdatasync:
		return 1;
	default:
		return 0;
	}
}

static int is_code(const struct maps *maps, uint64_t address)
{
	const struct map *map = maps_find(maps, address);

	return map && map->prot & PROT_EXEC;
}

/*
 * The code that a signal handler has interrupted: near enough to the allocator to be called by it?
 */
static int interrupts(const struct remote_thread *remote, const struct glibc *glibc, uint64_t pc,
		      uint64_t stack)
{
	uint64_t span = glibc->malloc_high - glibc->malloc_low, words[CALLER_WORDS];

	if (pc - glibc->malloc_low < span ||
	    remote_thread_read(remote, stack, words, sizeof(words)))
		return 1;
	for (size_t i = 0; i < CALLER_WORDS; i++)
		if (words[i] - glibc->malloc_low < span)
			return 1;
	return 0;
}

int interrupted_call_is_outside_malloc(const struct remote_thread *remote, const struct maps *maps,
				       const struct glibc *glibc)
{
	uint64_t stack = remote_regs_stack(&remote->saved) & ~UINT64_C(7), *words, below, pc;
	const struct map *map = maps_find(maps, stack);
	size_t count = map ? (map->end - stack) / sizeof(*words) : 0;
	int is_outside;

	if (!is_none_of_malloc(remote_regs_call_number(&remote->saved)) || !count ||
	    count > STACK_WORDS_MAX)
		return 0;
	words = malloc(count * sizeof(*words));
	is_outside = words && !remote_thread_read(remote, stack, words, count * sizeof(*words));
	for (size_t i = 0; is_outside && i < count; i++) {
		if (!remote_is_signal_frame(words + i, count - i, &pc, &below) ||
		    !is_code(maps, words[i]) || !is_code(maps, pc))
			continue;
		/* one that has returned looks the same as long as nothing was written over it */
		is_outside = !interrupts(remote, glibc, pc, below);
	}
	free(words);
	return is_outside;
}
