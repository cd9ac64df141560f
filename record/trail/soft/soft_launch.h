/* SPDX-License-Identifier: MIT */
/*
 * How an engine comes into a program that begins: mapped, with the channel, before the program's
 * first instruction, by system calls of the program's own process. Nothing is looked up by a path
 * there, so it may see another root.
 *
 * All calls come from the thread that traces the process, except soft_become().
 */
#ifndef RECORD_TRAIL_SOFT_SOFT_LAUNCH_H
#define RECORD_TRAIL_SOFT_SOFT_LAUNCH_H

#include "base/detail.h"
#include "record/trail/soft/soft_channel.h"
#include "record/trail/soft/soft_image.h"
#include "target/process/remote_thread.h"

#include <sys/user.h>

#define SOFT_PASSED 3 /* descriptors: the channel's, the engine's, the control page's */

/* As step_become(); what is to be mapped comes over the gate. */
void soft_become(int gate, const char *path, char *const argv[]) __attribute__((noreturn));

struct soft_launch {
	pid_t pid;
	int fds[SOFT_PASSED];		   /* in that process */
	struct user_regs_struct regs;	   /* as the program begins */
	struct remote_thread thread;	   /* the program's, which makes system calls for us */
	uint64_t engine, control, channel; /* their addresses */
	struct detail detail;
};

/* What is mapped there. The channel is that process's alone. */
struct soft_parts {
	const struct soft_channel *channel;
	const struct soft_image *image;
	const struct soft_control *control;
};

/*
 * Bring the process at the gate's other end to its PTRACE_EVENT_EXEC, seized. 0 or -errno; where it
 * did not come so far it has ended or ends by itself, else it is the caller's to end.
 */
int soft_launch_await(struct soft_launch *launch, pid_t pid, int gate,
		      const struct soft_parts *parts);

/*
 * From there on: map all, give the engine the program's state, by calls of the program's thread
 * (target/process/remote_thread.h). If we die, it begins its program by itself; where no module has
 * room for the code of those calls it is over the program's first instructions, and the process
 * dies with us. 0, or a negative error: `detail` says more, or is ""; the process is then of no
 * further use. It is stopped until soft_launch_go().
 */
int soft_launch_enter(struct soft_launch *launch, const struct soft_parts *parts,
		      struct detail detail);
int soft_launch_go(struct soft_launch *launch);

/*
 * The same for a process that was recorded before, or whose parent was: from its PTRACE_EVENT_EXEC
 * on, up to where the engine begins. After an error it continues natively, if it lives; -EPERM: it
 * has gained privileges by the program, and nothing of Waymark was there.
 */
int soft_launch_again(pid_t pid, const struct soft_parts *parts);

#endif
