/* SPDX-License-Identifier: MIT */
/*
 * How an engine comes into a program that begins: mapped, with the channel, before the program's
 * first instruction, by system calls of the program's own process. Nothing is looked up by a path
 * there, so it may see another root.
 *
 * All calls come from the thread that traces the process, except soft_become().
 */
#ifndef BRANCH_SOFT_SOFT_LAUNCH_H
#define BRANCH_SOFT_SOFT_LAUNCH_H

#include "branch/soft/soft_channel.h"
#include "branch/soft/soft_image.h"
#include "branch/soft/soft_loan.h"

/* As step_become(); what is to be mapped comes over the gate. */
void soft_become(int gate, const char *path, char *const argv[]) __attribute__((noreturn));

struct soft_launch {
	pid_t pid;
	uint32_t process; /* its page of the channel */
	int fds[2];	  /* of the channel and the image, in that process */
	struct soft_loan loan;
	uint64_t engine, channel; /* where they lie */
};

/*
 * Bring the process at the gate's other end to its PTRACE_EVENT_EXEC, seized. 0 or -errno; where it
 * did not come so far it has ended or ends by itself, else it is the caller's to end.
 */
int soft_launch_await(struct soft_launch *launch, pid_t pid, int gate,
		      const struct soft_channel *channel, const struct soft_image *image);

/*
 * From there on: map all, give the engine the program's state. 0, or a negative error:
 * detail[bytes] says more, or is ""; the process is then of no further use. It is stopped until
 * soft_launch_go().
 */
int soft_launch_enter(struct soft_launch *launch, const struct soft_channel *channel,
		      const struct soft_image *image, char *detail, size_t bytes);
int soft_launch_go(struct soft_launch *launch);

/*
 * The same for a process that was recorded before, or whose parent was: from its PTRACE_EVENT_EXEC
 * on, up to where the engine begins on that page. After an error it continues natively, if it
 * lives.
 */
int soft_launch_again(pid_t pid, const struct soft_channel *channel, uint32_t process,
		      const struct soft_image *image);

#endif
