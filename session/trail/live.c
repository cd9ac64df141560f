/* SPDX-License-Identifier: MIT */
#include "session/trail/live.h"

#include "base/elf.h"
#include "session/process.h"
#include "session/program.h"
#include "session/target.h"
#include "session/trail/files.h"
#include "session/trail/stepper.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

#define FLUSH_NS 500000000u

struct live_process {
	struct live_process *next;
	pid_t pid;
	int is_taken, is_over;
	uint64_t flushed_ns;
	struct trail_files files;
	struct stepper stepper;
};

int live_is_wanted(const struct wm_session *session)
{
	return spec_trail(&session->specs) != NULL;
}

int live_is_all(const struct wm_session *session)
{
	return live_is_wanted(session) && session->specs.count == 1;
}

static struct live_process *add(struct wm_session *session, pid_t pid)
{
	struct live_process *added = calloc(1, sizeof(*added));

	if (!added)
		return NULL;
	added->pid = pid;
	added->next = session->live.processes;
	session->live.processes = added;
	trail_files_init(&added->files, session->writer);
	return added;
}

/* The newest, which came to nothing. */
static void drop(struct wm_session *session)
{
	struct live_process *dropped = session->live.processes;

	session->live.processes = dropped->next;
	trail_files_release(&dropped->files);
	free(dropped);
}

/* A trail goes into a folder, and its origin must be there. */
static int check(struct wm_session *session)
{
	const struct trail_request *request = spec_trail(&session->specs);

	if (!session->writer)
		return session_fail(session, -WM_E_TRAIL_FOLDER, "%s",
				    session->dir ? session->dir : "");
	if (!request->is_auto && request->origin != TRAIL_STEP)
		return session_fail(session, -WM_E_TRAIL_OPTION, "not built yet");
	return 0;
}

/* What stands in the way of a trail, and not only of the agent. */
static int program_error(int err)
{
	return err == -WM_E_STATIC_PROGRAM || err == -WM_E_FOREIGN_LIBC ? 0 : err;
}

int live_launch(struct wm_session *session, char *const argv[])
{
	struct live_process *live;
	struct program program;
	int err = check(session);

	if (err)
		return err;
	err = program_error(program_find(&program, argv[0]));
	if (err)
		return session_fail(session, err, "%s",
				    program.binary[0] ? program.binary : argv[0]);
	live = add(session, 0);
	if (!live)
		return -ENOMEM;
	err = stepper_launch(&live->stepper, &live->files.sink, program.path, argv);
	if (err) {
		drop(session);
		return session_fail(session, err, "%s", program.path);
	}
	live->pid = live->stepper.pid;
	live->is_taken = 1;
	return live->pid;
}

/* Whether it may be stepped through; with words about why not. */
static int may_take(const struct target *target, struct detail detail)
{
	char path[64];
	struct elf elf;
	int err;

	err = target_may_trace(target, detail);
	if (err)
		return err;
	snprintf(path, sizeof(path), "/proc/%d/exe", target->live_tid);
	err = elf_open(&elf, path);
	elf_release(&elf);
	return err ? detail_set(detail, err, "process %d (%s) runs %s", target->pid, target->comm,
				target->exe)
		   : 0;
}

int live_attach(struct wm_session *session, pid_t pid)
{
	char words[512] = "";
	struct target target;
	int err = check(session);

	if (err)
		return err;
	for (struct live_process *p = session->live.processes; p; p = p->next)
		if (p->pid == pid)
			return session_fail(session, -EEXIST, "pid %d is in this session already",
					    (int)pid);
	err = target_read(&target, pid);
	if (err)
		return session_fail(session, err, "pid %d", (int)pid);
	err = may_take(&target, (struct detail){ words, sizeof(words) });
	if (err)
		return session_fail(session, err, "pid %d: %s", (int)pid, words);
	return add(session, pid) ? 0 : -ENOMEM;
}

static int take(struct wm_session *session, struct live_process *live,
		const struct step_leave *leave)
{
	char words[512] = "";
	struct target target;
	int err = stepper_attach(&live->stepper, &live->files.sink, live->pid, leave);

	if (!err) {
		live->is_taken = 1;
		return 0;
	}
	live->is_over = 1;
	/* "not permitted" is also what the kernel says of one that another has begun to trace meanwhile */
	if (err == -EPERM && !target_read(&target, live->pid)) {
		int why = target_may_trace(&target, (struct detail){ words, sizeof(words) });

		err = why ? why : err;
	}
	return session_fail(session, err, "pid %d%s%s", (int)live->pid, words[0] ? ": " : "",
			    words);
}

#define AGENT_THREADS_MAX 8

/* The threads of our own in a process: the control thread, its keeper, by the names that they have. */
static size_t agent_threads(pid_t pid, pid_t tids[AGENT_THREADS_MAX])
{
	char path[64];
	struct dirent *entry;
	size_t count = 0;
	DIR *list;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	list = opendir(path);
	while (list && (entry = readdir(list)) && count < AGENT_THREADS_MAX) {
		pid_t tid = (pid_t)atoi(entry->d_name);
		char comm[32] = "";
		FILE *file;

		if (tid <= 0 || tid == pid)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", (int)pid, (int)tid);
		file = fopen(path, "re");
		if (file && fgets(comm, sizeof(comm), file) &&
		    (!strcmp(comm, "waymark\n") || !strcmp(comm, "waymark-keeper\n")))
			tids[count++] = tid;
		if (file)
			fclose(file);
	}
	if (list)
		closedir(list);
	return count;
}

int live_join(struct wm_session *session, const struct process *process)
{
	pid_t tids[AGENT_THREADS_MAX];
	struct live_process *live;
	int err = live_is_wanted(session) ? check(session) : 0;

	if (err || !live_is_wanted(session))
		return err;
	live = add(session, process->pid);
	if (!live)
		return -ENOMEM;
	return take(session, live, &(struct step_leave){ tids, agent_threads(process->pid, tids) });
}

int live_start(struct wm_session *session)
{
	int err = 0;

	for (struct live_process *p = session->live.processes; p && !err; p = p->next)
		if (!p->is_taken && !p->is_over)
			err = take(session, p, NULL);
	for (struct live_process *p = session->live.processes; p && !err; p = p->next)
		if (p->is_taken)
			stepper_go(&p->stepper);
	session->live.has_begun = !err;
	return err;
}

/* What was recorded until FLUSH_NS ago is to be in the folder if we are killed. */
static int flush(struct live_process *live)
{
	uint64_t now_ns = ticks_monotonic_ns();

	if (now_ns - live->flushed_ns < FLUSH_NS)
		return 0;
	live->flushed_ns = now_ns;
	return trail_files_flush(&live->files);
}

static int pump(struct live_process *live)
{
	int got = stepper_pump(&live->stepper), err = got > 0 ? flush(live) : 0;

	return err < 0 ? err : got;
}

int live_pump(struct wm_session *session)
{
	int err = 0, count = 0;

	for (struct live_process *p = session->live.processes; p; p = p->next) {
		int got;

		if (!p->is_taken || p->is_over)
			continue;
		got = pump(p);
		count += got > 0;
		p->is_over = got <= 0;
		if (got < 0 && !err)
			err = session_fail(session, got, "pid %d", (int)p->pid);
	}
	return err ? err : count;
}

int live_stop(struct wm_session *session)
{
	int err = 0;

	for (struct live_process *p = session->live.processes; p; p = p->next) {
		int got = p->is_taken ? stepper_stop(&p->stepper) : 0;

		p->is_taken = 0;
		p->is_over = 1;
		if (got < 0 && !err)
			err = session_fail(session, got, "pid %d", (int)p->pid);
	}
	return err;
}

int live_count(const struct wm_session *session)
{
	int count = 0;

	for (const struct live_process *p = session->live.processes; p; p = p->next)
		count += !p->is_over;
	return count;
}

void live_counts(const struct wm_session *session, struct live_counts *counts)
{
	*counts = (struct live_counts){ 0 };
	for (const struct live_process *p = session->live.processes; p; p = p->next) {
		counts->instructions += p->stepper.relay.instructions;
		counts->blocks += p->stepper.relay.blocks;
		counts->threads += p->stepper.relay.threads_ever;
		counts->processes++;
	}
}

void live_release(struct wm_session *session)
{
	live_stop(session);
	while (session->live.processes)
		drop(session);
}
