/* SPDX-License-Identifier: MIT */
#include "cli/targets.h"

#include "cli/cli.h"
#include "record/session/session.h"
#include "record/session/unrecorded.h"
#include "target/process/descendants.h"
#include "target/process/target.h"

#include <errno.h>
#include <stdlib.h>
#include <waymark/error.h>

struct tried {
	pid_t *pids;
	size_t count;
};

/* Returns 1 when it is new. */
static int add(struct tried *tried, pid_t pid)
{
	pid_t *more;

	for (size_t i = 0; i < tried->count; i++)
		if (tried->pids[i] == pid)
			return 0;
	more = reallocarray(tried->pids, tried->count + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	tried->pids = more;
	more[tried->count++] = pid;
	return 1;
}

static void attach(struct wm_session *session, pid_t pid)
{
	int err = wm_session_attach(session, pid);

	/* it came by itself, or it has ended */
	if (!err || err == -EEXIST || err == -ESRCH || err == -WM_E_GONE)
		return;
	complain(err, "%s (the others are recorded)", wm_session_detail(session));
	unrecorded_add(session, pid, NULL, err, wm_session_detail(session));
}

/* One look at the processes there are. Returns how many were new, or an error. */
static int take_in_new(struct wm_session *session, pid_t root, struct tried *tried)
{
	pid_t *pids;
	int count = descendants_read(&root, 1, &pids), fresh = 0;

	for (int i = 0; i < count && fresh >= 0; i++) {
		int is_new = add(tried, pids[i]);

		if (is_new > 0)
			attach(session, pids[i]);
		fresh = is_new < 0 ? is_new : fresh + is_new;
	}
	free(pids);
	return count < 0 ? count : fresh;
}

static int tree_take_in(struct wm_session *session, pid_t root)
{
	struct tried tried = { 0 };
	int fresh;

	/* until none comes of one that was not entered yet: theirs come by themselves */
	do {
		fresh = take_in_new(session, root, &tried);
	} while (fresh > 0);
	free(tried.pids);
	return fresh;
}

static int lives(pid_t pid)
{
	struct target target;

	return !target_read(&target, pid) && !target_has_ended(&target);
}

/*
 * Attach to the named processes. To attach to many takes seconds: one that lived at first, and has
 * ended before its turn, is named and left out. All ended: the last error.
 */
static int named_take_in(struct wm_session *session, const struct command_ids *pids)
{
	char *lived = calloc(pids->count + 1, 1);
	size_t attached = 0;
	int err = 0, gone = 0;

	if (!lived)
		return -ENOMEM;
	for (size_t i = 0; i < pids->count; i++)
		lived[i] = (char)lives(pids->all[i]);
	for (size_t i = 0; i < pids->count && !err; i++) {
		err = wm_session_attach(session, pids->all[i]);
		attached += !err;
		if (!err || !lived[i] || lives(pids->all[i]))
			continue;
		complain_words("waymark: process %d ended before it could be attached to\n",
			       (int)pids->all[i]);
		gone = err;
		err = 0;
	}
	free(lived);
	return err || attached ? err : gone;
}

int targets_check(struct targets *targets, const char *command, char **rest)
{
	targets->command = *rest ? rest : NULL;
	if (targets->command && targets->pids.count)
		return complain_usage(command, "give either -p or a program, not both");
	if (!targets->command && !targets->pids.count && !targets->session.cpus)
		return complain_usage(command, "name a process with -p, or a program to start");
	if (targets->session.cgroup && !targets->session.cpus)
		return complain_usage(command, "-G is for -a or -C");
	if (targets->tree && !targets->pids.count)
		return complain_usage(command,
				      "--tree is for -p; the children of a program that is started "
				      "are recorded anyway");
	return -1;
}

int targets_take_in(const struct targets *targets, struct wm_session *session, struct child *child)
{
	int err = named_take_in(session, &targets->pids);

	for (size_t i = 0; i < targets->pids.count && !err && targets->tree; i++)
		err = tree_take_in(session, targets->pids.all[i]);
	if (err < 0 || !targets->command)
		return err;
	err = wm_session_launch(session, targets->command);
	if (err < 0)
		return err;
	child->pid = err;
	return 0;
}
