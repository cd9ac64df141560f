/* SPDX-License-Identifier: MIT */
/* Bring the agent into a running process. inject.c describes how. */
#ifndef TARGET_PROCESS_INJECT_H
#define TARGET_PROCESS_INJECT_H

#include <stddef.h>
#include <sys/types.h>
#include "arch/start_stage.h"
#include "base/maps.h"
#include "target/process/glibc.h"
#include "target/process/remote_thread.h"

/*
 * What the agent's library offers: int waymark_agent_loaded(const char *socket_dir); 0 or an error.
 */
#define INJECT_SYMBOL "waymark_agent_loaded"

/*
 * Load the agent library into a process, by its path as the process sees it, and have it listen in
 * socket_dir (abi/control.h); also when it was loaded before and went to sleep. An agent that
 * listens already is left alone. `pid` may name any thread of the process. Waits up to some 12 s.
 *
 * No program thread runs any of it: one is borrowed for four system calls and given back as it was
 * (target/process/remote_thread.h). A process that is forked for it does the work
 * (injector in inject.c). A tool that is killed meanwhile leaves the program running, and its
 * text as it was.
 *
 * Returns 0 once the agent listens; else, with words in detail[] (may be NULL, 0), and nothing of
 * ours left in the process but what an agent that was loaded leaves: -ESRCH, -EPERM, -EINVAL,
 * -WM_E_GONE, -WM_E_TRACED, -WM_E_STOPPED, -WM_E_SECCOMP, -WM_E_FOREIGN_ARCH, -WM_E_STATIC_PROGRAM,
 * -WM_E_FOREIGN_LIBC, -WM_E_NO_AGENT, -WM_E_INJECT, -ENOMEM.
 *
 * While it runs, no thread of the caller's may wait for just any child (waitpid(-1)): it would take
 * what is meant for us.
 */
int injector_agent(pid_t pid, const char *agent_path, const char *socket_dir, char *detail,
		   size_t detail_bytes);

/*
 * Whether injector_agent() would succeed: a borrowed thread maps the same memory and makes the
 * calls that the agent begins with, and undoes each. No agent is loaded. As injector_agent(); or 1:
 * it would, but the process cannot read its own /proc, so the agent stops none of its threads.
 */
int injector_try(pid_t pid, const char *agent_path, const char *socket_dir, char *detail,
		 size_t detail_bytes);

/*
 * How far the start of a process has come that the caller traces; `tid` is a thread of it. Until it
 * is over, the dynamic loader works without its locks: it takes the process for its own.
 */
enum startup inject_startup_read(pid_t tid, int mem_fd, const struct glibc *glibc);

#endif
