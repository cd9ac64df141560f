/* SPDX-License-Identifier: MIT */
/*
 * Programs that are started and stopped where their own code begins, at the entry of their file:
 * their libraries are mapped and relocated then, and the libraries' constructors have run. Nothing
 * is loaded into them, and nothing stays behind. Programs that start with SIGTRAP ignored or
 * blocked are stopped before they run at all.
 *
 * A thread of the tool is the tracer (ptrace(2) needs one), and the stopped program ends with it: a
 * killed tool leaves no stopped program behind. Meanwhile no other thread of the caller's may wait
 * for any child (waitpid(-1), tracee.h).
 */
#ifndef TARGET_PROCESS_ENTRY_H
#define TARGET_PROCESS_ENTRY_H

#include <sys/types.h>

struct entry;

/*
 * Start it as a child with the caller's environment, and wait until it has stopped there: 0 and
 * *pid. On an error it has ended and been waited for: execve(2)'s error, -WM_E_GONE (it ended
 * before, or executed another program), -ETIMEDOUT, -ENOMEM, -errno.
 */
int entry_launch(struct entry **entry, pid_t *pid, const char *path, char *const argv[]);

/* Continue it. Sets *entry to NULL, which may be NULL before. */
void entry_go(struct entry **entry);

/* Kill it instead. The caller waits for it. */
void entry_kill(struct entry **entry);

#endif
