/* SPDX-License-Identifier: MIT */
/*
 * How a process comes to be the program that is traced: it waits at a gate, is seized there, and
 * executes the program only then, so that nothing of it runs unseen. The gate is a socket pair
 * (SOCK_STREAM), one end for each side.
 */
#ifndef RECORD_TRAIL_LAUNCH_GATE_H
#define RECORD_TRAIL_LAUNCH_GATE_H

#include <sys/types.h>

/* In the process that is to be the program, forked for that: does not return. `gate` is its end. */
typedef void gate_becomes(int gate, const char *path, char *const argv[]);
gate_becomes gate_become __attribute__((noreturn));

/* What that ends with: execute the program once the gate is open, or say why it can not be. */
gate_becomes gate_execute __attribute__((noreturn));

/*
 * Fork that process, with this environment, or ours for NULL: its pid, and in *gate the tracer's
 * end, which the caller closes; or -errno.
 */
pid_t gate_fork(int *gate, gate_becomes *become, const char *path, char *const argv[],
		char **environment);

/*
 * In its tracer, with the other end: seize it with these PTRACE_O_*, PTRACE_O_TRACEEXEC among them,
 * and let it execute the program. 0: it is stopped in its PTRACE_EVENT_EXEC; or -errno, from
 * execve(2) too.
 */
int gate_await(int gate, pid_t pid, int options);

/* What that ends with, for a gate where other words were exchanged until then. */
int gate_pass(int gate, pid_t pid, int options);

#endif
