/* SPDX-License-Identifier: MIT */
#include "record/trail/only.h"

#include "base/array.h"
#include "base/elf.h"
#include "base/maps.h"
#include "base/name_match.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A part of a process's memory that code of a chosen module has. */
struct range {
	uint64_t start, end;
	uint32_t came; /* as so many modules had come or gone */
	uint32_t gave; /* the same, as another took its place; UINT32_MAX: none has */
};

enum verdict { UNKNOWN, ALL, NONE, SOME };

/* One for each process. */
struct only {
	struct trail_sink sink;
	struct trail_sink *to;
	struct only *first; /* that of the process that was begun with; it has what is of all */
	struct only *next;  /* all of them, from the first on */
	pid_t pid;
	char exe[PATH_MAX];
	struct range *ranges;
	size_t count, room;
	struct module_epochs epochs;
	uint8_t *verdicts; /* enum verdict, by path number: its blocks never change */
	size_t verdict_count, verdict_room;
	struct only_names names; /* the first's */
	uint32_t found;		 /* the first's: a bit for each name that some module had */
};

struct sink_thread {
	struct sink_thread *to;
	int is_away;	/* it ran elsewhere, and nothing says so yet */
	int is_dropped; /* its last block was */
	/* of its next blocks: they ran no earlier, and no later, than so many modules' changes */
	uint32_t epoch_from, epoch_to;
};

static struct only *only_of(struct trail_sink *sink)
{
	return (struct only *)sink;
}

/* ---- which code that is ---- */

static int is_named(const struct only *only, const char *name, const char *path, const char *soname)
{
	char real[PATH_MAX];

	if (!strcmp(name, ONLY_MAIN) && !strcmp(path, only->exe))
		return 1;
	if (name_match_module(name, path) || (*soname && name_match_module(name, soname)))
		return 1;
	return strchr(name, '/') && realpath(name, real) && !strcmp(real, path);
}

/* The name that programs link a library by, which need not be its file's. "": none. */
static void soname_of(const char *path, char soname[NAME_MAX + 1])
{
	struct elf elf;

	*soname = '\0';
	if (path[0] != '/')
		return;
	if (elf_open(&elf, path) || elf_soname(&elf, soname, NAME_MAX + 1) < 0)
		*soname = '\0';
	elf_release(&elf);
}

static int is_chosen(const struct only *only, const char *path)
{
	struct only *first = only->first;
	char soname[NAME_MAX + 1];
	int is = 0;

	soname_of(path, soname);
	for (uint32_t i = 0; i < first->names.count; i++)
		if (is_named(only, first->names.names[i], path, soname)) {
			first->found |= 1u << i;
			is = 1;
		}
	return is;
}

static int is_inside(const struct only *only, const struct sink_thread *thread, uint64_t address)
{
	for (size_t i = 0; i < only->count; i++) {
		const struct range *range = &only->ranges[i];

		if (address - range->start < range->end - range->start &&
		    range->came < thread->epoch_to && range->gave > thread->epoch_from)
			return 1;
	}
	return 0;
}

/* What lay there does no longer. */
static void take_away(struct only *only, const struct range *gone)
{
	for (size_t i = 0; i < only->count; i++) {
		struct range *range = &only->ranges[i];

		if (range->gave == UINT32_MAX && range->start < gone->end &&
		    range->end > gone->start)
			range->gave = only->epochs.events;
	}
}

/* The range of a module at `base`, from its file; 0: the file can't be read. */
static int range_of_file(struct range *range, const char *path, uint64_t base)
{
	struct elf elf;

	*range = (struct range){ .start = UINT64_MAX };
	if (!elf_open(&elf, path))
		for (size_t i = 0; i < elf.segment_count; i++) {
			const Elf64_Phdr *segment = &elf.segments[i];
			uint64_t start = base + segment->p_vaddr;

			if (segment->p_type != PT_LOAD)
				continue;
			if (start < range->start)
				range->start = start;
			if (start + segment->p_memsz > range->end)
				range->end = start + segment->p_memsz;
		}
	elf_release(&elf);
	return range->start < range->end;
}

/*
 * By the process's map: the mappings of that path that follow each other from `base` on. A path may
 * be mapped elsewhere, too.
 */
static int range_of_map(struct range *range, pid_t pid, const char *path, uint64_t base)
{
	struct maps maps;

	*range = (struct range){ .start = UINT64_MAX };
	if (!maps_read(&maps, pid))
		for (size_t i = 0; i < maps.count; i++) {
			if (maps.list[i].end <= base)
				continue;
			if (strcmp(maps.list[i].path, path) != 0)
				break;
			if (maps.list[i].start < range->start)
				range->start = maps.list[i].start;
			range->end = maps.list[i].end;
		}
	maps_release(&maps);
	return range->start < range->end;
}

/* The program may have executed another since; one that is gone was what it was. */
static void note_exe(struct only *only)
{
	char link[64], path[PATH_MAX];
	ssize_t bytes;

	snprintf(link, sizeof(link), "/proc/%d/exe", (int)only->pid);
	bytes = readlink(link, path, sizeof(path) - 1);
	if (bytes <= 0)
		return;
	path[bytes] = '\0';
	snprintf(only->exe, sizeof(only->exe), "%s", path);
}

static int note_module(struct only *only, const struct control_module *module, const char *path)
{
	struct range range;

	note_exe(only);
	if (!range_of_file(&range, path, module->base) &&
	    !range_of_map(&range, only->pid, path, module->base))
		return 0;
	if (module->gone) /* what it ran may still come, from an origin that is drained late */
		return 0;
	take_away(only, &range);
	if (!is_chosen(only, path))
		return 0;
	if (array_grow(&only->ranges, &only->room, only->count + 1, sizeof(*only->ranges)))
		return -ENOMEM;
	range.came = only->epochs.events;
	range.gave = UINT32_MAX;
	only->ranges[only->count++] = range;
	return 0;
}

/* ---- what is passed on ---- */

static int only_begin(struct trail_sink *sink, pid_t pid)
{
	struct only *only = only_of(sink);

	only->pid = pid;
	return only->to->calls->begin(only->to, pid);
}

static int only_module(struct trail_sink *sink, const struct control_module *module,
		       const char *path)
{
	struct only *only = only_of(sink);
	int err = note_module(only, module, path);

	if (!err)
		err = module_epochs_take(&only->epochs, module, path);
	return err ? err : only->to->calls->module(only->to, module, path);
}

static int only_thread_begin(struct trail_sink *sink, struct sink_thread **out, pid_t tid,
			     const char *comm, enum trail_origin origin, uint64_t ticks)
{
	struct only *only = only_of(sink);
	int err;

	*out = calloc(1, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	(*out)->epoch_from = UINT32_MAX - 1;
	(*out)->epoch_to = UINT32_MAX;
	err = only->to->calls->thread_begin(only->to, &(*out)->to, tid, comm, origin, ticks);
	if (!err)
		return 0;
	free(*out);
	*out = NULL;
	return err;
}

static int only_thread_name(struct trail_sink *sink, struct sink_thread *thread, const char *comm)
{
	const struct trail_sink *to = only_of(sink)->to;

	return to->calls->thread_name ? to->calls->thread_name(only_of(sink)->to, thread->to, comm)
				      : 0;
}

static int only_thread_end(struct trail_sink *sink, struct sink_thread *thread, uint64_t ticks)
{
	struct only *only = only_of(sink);
	int err = only->to->calls->thread_end(only->to, thread->to, ticks);

	free(thread);
	return err;
}

/* It continues at `at`; 0: somewhere. */
static int come_back(const struct only *only, struct sink_thread *thread, uint64_t at,
		     uint64_t ticks)
{
	const struct trail_between gap = {
		.at = at, .has_at = at != 0, .event = TRAIL_GAP, .values = { TRAIL_GAP_ELSEWHERE }
	};

	if (!thread->is_away)
		return 0;
	thread->is_away = 0;
	return only->to->calls->event(only->to, thread->to, &gap, ticks);
}

static void drop(struct sink_thread *thread)
{
	thread->is_away = 1;
	thread->is_dropped = 1;
}

static int only_since(struct trail_sink *sink, struct sink_thread *thread, uint32_t from)
{
	const struct module_epochs *epochs = &only_of(sink)->epochs;
	const struct trail_sink *to = only_of(sink)->to;
	uint32_t end = module_epochs_end(epochs, from);

	thread->epoch_from = from;
	thread->epoch_to = end ? end : UINT32_MAX;
	return to->calls->since ? to->calls->since(only_of(sink)->to, thread->to, from) : 0;
}

static int only_block(struct trail_sink *sink, struct sink_thread *thread,
		      const struct trail_entry *entry, const uint8_t *code, uint64_t ticks)
{
	struct only *only = only_of(sink);
	int err;

	if (!is_inside(only, thread, entry->start)) {
		drop(thread);
		return 0;
	}
	err = come_back(only, thread, entry->start, ticks);
	thread->is_dropped = 0;
	return err ? err : only->to->calls->block(only->to, thread->to, entry, code, ticks);
}

static int only_event(struct trail_sink *sink, struct sink_thread *thread,
		      const struct trail_between *between, uint64_t ticks)
{
	struct trail_between reported = *between;
	struct only *only = only_of(sink);
	int err;

	if (thread->is_dropped) {
		if (reported.event == TRAIL_SYSCALLED)
			return 0;
		reported.left = 0; /* of nothing that was reported */
		/* the place where a thread was made is no part of the chosen code */
		if (reported.event == TRAIL_FORK)
			reported.at = reported.has_at = 0;
	}
	err = come_back(only, thread, reported.has_at ? reported.at : 0, ticks);
	return err ? err : only->to->calls->event(only->to, thread->to, &reported, ticks);
}

/* ---- paths ---- */

static enum verdict judge(const struct only *only, const struct sink_thread *thread,
			  const struct trail_source_path *path)
{
	uint32_t inside = 0;

	for (uint32_t i = 0; i < path->count; i++)
		inside += (uint32_t)is_inside(only, thread, path->blocks[i].entry.start);
	return !inside ? NONE : inside == path->count ? ALL : SOME;
}

/* Modules are reported before paths in them. */
static int verdict_of(struct only *only, const struct sink_thread *thread,
		      const struct trail_source_path *path, enum verdict *verdict)
{
	size_t had = only->verdict_count;

	if (path->number >= had) {
		size_t count = (size_t)path->number + 1;

		if (array_grow(&only->verdicts, &only->verdict_room, count, 1))
			return -ENOMEM;
		memset(only->verdicts + had, UNKNOWN, count - had);
		only->verdict_count = count;
	}
	if (only->verdicts[path->number] == UNKNOWN)
		only->verdicts[path->number] = (uint8_t)judge(only, thread, path);
	*verdict = (enum verdict)only->verdicts[path->number];
	return 0;
}

static int only_path(struct trail_sink *sink, struct sink_thread *thread,
		     const struct trail_source_path *path, uint64_t ticks)
{
	struct only *only = only_of(sink);
	enum verdict verdict;
	int err = verdict_of(only, thread, path, &verdict);

	if (err)
		return err;
	if (verdict == NONE) {
		drop(thread);
		return 0;
	}
	if (verdict == ALL) {
		err = come_back(only, thread, path->blocks[0].entry.start, ticks);
		thread->is_dropped = 0;
		return err ? err : only->to->calls->path(only->to, thread->to, path, ticks);
	}
	for (uint32_t i = 0; i < path->count && !err; i++)
		err = only_block(sink, thread, &path->blocks[i].entry, path->blocks[i].code, ticks);
	return err;
}

/* ---- processes ---- */

static int make(struct only **out, struct trail_sink *to, struct only *first);

/* A child that ended before we looked at it ran its parent's program. */
static const char *exe_of(const struct only *first, const struct sink_process *process)
{
	const struct only *only = first;

	if (process->exe[0])
		return process->exe;
	while (only && only->pid != process->ppid)
		only = only->next;
	return only ? only->exe : "";
}

static int only_child(struct trail_sink *sink, struct trail_sink **child,
		      const struct sink_process *process)
{
	struct only *only = only_of(sink), *made;
	struct trail_sink *to;
	int err = make(&made, NULL, only->first);

	if (!err)
		err = only->to->calls->child(only->to, &to, process);
	if (err) {
		only_close(made);
		return err;
	}
	made->to = to;
	made->pid = process->pid;
	snprintf(made->exe, sizeof(made->exe), "%s", exe_of(only->first, process));
	made->next = only->first->next;
	only->first->next = made;
	made->sink.calls = only->sink.calls;
	*child = &made->sink;
	return 0;
}

static int only_process_end(struct trail_sink *sink, const struct sink_ending *ending)
{
	struct only *only = only_of(sink);
	int err = only->to->calls->process_end(only->to, ending);

	if (only != only->first)
		only_close(only);
	return err;
}

#define CALLS                                                                                      \
	.begin = only_begin, .module = only_module, .thread_begin = only_thread_begin,             \
	.thread_name = only_thread_name, .since = only_since, .block = only_block,                 \
	.path = only_path, .event = only_event, .thread_end = only_thread_end

static const struct trail_sink_calls calls = { CALLS };
static const struct trail_sink_calls following_calls = { CALLS, .child = only_child,
							 .process_end = only_process_end };

static int make(struct only **out, struct trail_sink *to, struct only *first)
{
	struct only *only = calloc(1, sizeof(*only));

	*out = only;
	if (!only)
		return -ENOMEM;
	only->to = to;
	only->first = first ? first : only;
	return 0;
}

int only_open(struct only **only, struct trail_sink *to, const struct only_names *names)
{
	int err = make(only, to, NULL);

	if (err)
		return err;
	(*only)->names = *names;
	(*only)->sink.calls = to->calls->child ? &following_calls : &calls;
	return 0;
}

struct trail_sink *only_sink(struct only *only)
{
	return &only->sink;
}

void only_missing(const struct only *only, char *text, size_t bytes)
{
	size_t used = 0;

	if (bytes)
		text[0] = '\0';
	for (uint32_t i = 0; i < only->names.count && used < bytes; i++)
		if (!(only->found & 1u << i))
			used += (size_t)snprintf(text + used, bytes - used, "%s%s",
						 used ? ", " : "", only->names.names[i]);
}

void only_close(struct only *only)
{
	if (!only)
		return;
	for (struct only *at = only->first; at; at = at->next)
		if (at->next == only)
			at->next = only->next;
	free(only->ranges);
	module_epochs_release(&only->epochs);
	free(only->verdicts);
	free(only);
}
