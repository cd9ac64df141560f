/* SPDX-License-Identifier: MIT */
/*
 * What an engine's ids mean, out of its log (abi/engine.h): each is a path, blocks that ran one
 * after the other. All is copied before it is looked at, and nothing in it is believed.
 *
 * One thread at a time uses the paths.
 */
#ifndef RECORD_TRAIL_SOFT_SOFT_PATHS_H
#define RECORD_TRAIL_SOFT_SOFT_PATHS_H

#include "record/trail/soft/soft_channel.h"
#include "trace/trail/addressed.h"

struct soft_family;

#define SOFT_PATHS_BYTES_MAX (UINT64_C(4) << 30)

struct soft_path {
	struct trail_source_block *blocks; /* NULL: the id means nothing */
	/* of the process's, ever: what is executed has ids from the first on again */
	uint32_t number;
	uint32_t first; /* the first one's number; the others have those that follow */
	uint16_t count;
	uint16_t trace;	 /* blocks of the trace that it is a path of */
	uint32_t moment; /* soft_paths.moment when it was made */
};

struct soft_paths {
	struct soft_path *list; /* by id */
	size_t count, room;
	uint64_t taken;	 /* bytes of the log */
	uint32_t blocks; /* that have a number */
	struct soft_family *
		/* who shares all this: processes that are forks of each other; NULL: none yet */
		family;
	uint32_t first_number; /* of id 0 */
	uint32_t moment;       /* the process's modules changed places so often (module_epochs.h) */
	int error;	       /* the first; nothing is taken any more */
	/*
	 * Of each module that comes or goes; may be NULL. `path` is NUL-terminated. Returns the new
	 * `moment`, or an error.
	 */
	int64_t (*on_module)(void *data, const struct engine_module *module, const char *path);
	void *data;
};

/*
 * Take what a process's log has. 1: there was something, 0: nothing; -EPROTO: it breaks a rule;
 * -ENOMEM, also beyond SOFT_PATHS_BYTES_MAX; what on_module() returned.
 */
int soft_paths_take(struct soft_paths *paths, const struct soft_channel *channel);

/*
 * A copy of the process has those of ids below `end`, that it may share. 0 or -ENOMEM. `copy` is
 * zeroed.
 */
int soft_paths_copy(struct soft_paths *copy, const struct soft_paths *paths, uint32_t end);

/* The process has executed another program: no id means anything. */
void soft_paths_renew(struct soft_paths *paths);
void soft_paths_release(struct soft_paths *paths);

static inline struct soft_path *soft_path_of(const struct soft_paths *paths, uint32_t id)
{
	return id < paths->count && paths->list[id].blocks ? &paths->list[id] : NULL;
}

#endif
