/* SPDX-License-Identifier: MIT */
/* What `record`, `watch` and `top` look into: processes, a program that is started, or CPUs. */
#ifndef CLI_TARGETS_H
#define CLI_TARGETS_H

#include "cli/child.h"
#include "cli/command_line.h"

#include <waymark/session.h>

struct targets {
	struct command_ids pids;
	int tree;
	char **command; /* NULL: none */
	struct wm_session_options session;
};

#define TARGETS_HELP                                                                               \
	"  -p, --pid PID       a running process to attach to; several may be given\n"             \
	"  --tree              with -p: the processes that descend from it too\n"                  \
	"  --no-follow         leave the program's children alone\n"

#define TARGETS_CPU_HELP                                                                           \
	"  -a, --all           record kernel events of all CPUs, also those that come later\n"     \
	"  -C, --cpu LIST      of these CPUs: 0-3,6\n"                                             \
	"  -G, --cgroup PATH   with -a or -C: only what this cgroup runs there\n"                  \
	"  --buffer SIZE       the buffer for each process, as 64M (default 32M)\n"

/* Rows in the table of a command, whose options have a struct targets `targets`. */
#define TARGETS_ROWS(options)                                                                      \
	{ "pid", 'p', COMMAND_IDS, COMMAND_TO(options, targets.pids) },                            \
		{ "tree", 0, COMMAND_FLAG, COMMAND_TO(options, targets.tree), .min = 1 },          \
	{                                                                                          \
		"no-follow", 0, COMMAND_FLAG, COMMAND_TO(options, targets.session.follow),         \
			.min = WM_FOLLOW_NONE                                                      \
	}
#define TARGETS_CPU_ROWS(options)                                                                  \
	{ "all", 'a', COMMAND_FLAG, COMMAND_TO(options, targets.session.cpus),                     \
	  .words = (const char *const[]){ "all" } },                                               \
		{ "cpu", 'C', COMMAND_TEXT, COMMAND_TO(options, targets.session.cpus) },           \
		{ "cgroup", 'G', COMMAND_TEXT, COMMAND_TO(options, targets.session.cgroup) },      \
	{                                                                                          \
		"buffer", 0, COMMAND_SIZE, COMMAND_TO(options, targets.session.buffer_bytes)       \
	}

/* The options are read; `rest` is the program's words, if any. -1 to continue, or CLI_USAGE. */
int targets_check(struct targets *targets, const char *command, char **rest);

/*
 * Attach to the processes, or start the program. With --tree, descendants that can't be entered are
 * named, and left out. 0, or an error of the session.
 */
int targets_take_in(const struct targets *targets, struct wm_session *session, struct child *child);

#endif
