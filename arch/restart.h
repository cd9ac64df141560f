/* SPDX-License-Identifier: MIT */
/*
 * System calls that return EINTR for a mere stop by a tracer, where others restart by themselves.
 */
#ifndef ARCH_RESTART_H
#define ARCH_RESTART_H

#include <sys/syscall.h>

/*
 * Whether this is one of those that signal(7) names as never restarted, and that have done nothing
 * when they say EINTR.
 */
static inline int restart_is_wanted(unsigned long number)
{
	switch (number) {
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
	case 441: /* epoll_pwait2 */
	case SYS_semop:
	case SYS_semtimedop:
	case SYS_rt_sigtimedwait:
	case SYS_io_getevents:
	case 333:	 /* io_pgetevents */
	case 426:	 /* io_uring_enter */
	case SYS_accept: /* these where a timeout was set on the socket */
	case SYS_accept4:
	case SYS_recvfrom:
	case SYS_recvmsg:
	case SYS_sendto:
	case SYS_sendmsg:
		return 1;
	default:
		return 0;
	}
}

/* The kernel restarts a call with this result, unless a handler runs: its include/linux/errno.h. */
#define RESTART_NO_HANDLER 514
#define RESTART_RESUMED 516 /* what has used up some of its time: by restart_syscall(2) */

#endif
