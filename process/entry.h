/* SPDX-License-Identifier: MIT */
/*
 * Programs that are started and held where their own code begins, at the entry of their file: what they are linked with is mapped
 * and relocated then, and the libraries' constructors have run. Nothing is loaded into them, and nothing stays behind. Those that are to
 * ignore SIGTRAP, or have it blocked, are held before they run at all.
 *
 * A thread of ours is the tracer (ptrace(2) wants one), and what it holds ends with it: a tool that is killed leaves no
 * program behind that stands for ever. Meanwhile no other thread of the caller's may wait for just any child (tracee.h).
 */
#ifndef PROCESS_ENTRY_H
#define PROCESS_ENTRY_H

#include <sys/types.h>

struct entry;

/*
 * Start it, a child of ours with our environment, and wait until it stands there: 0 and *pid. Else it is gone, and waited for: what
 * execve(2) said, -WM_E_GONE (it ended before, or executed another program), -ETIMEDOUT, -ENOMEM, -errno.
 */
int entry_launch(struct entry **entry, pid_t *pid, const char *path, char *const argv[]);

/* Let it go on, as if it had never been held. *entry is NULL afterwards, also before. */
void entry_go(struct entry **entry);

/* It is not to go on: it is killed, and is the caller's to wait for. */
void entry_kill(struct entry **entry);

#endif
