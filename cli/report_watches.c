/* SPDX-License-Identifier: MIT */
#include "cli/report_watches.h"

#include "abi/watch.h"
#include "record/watch/figures.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SETTLE_HITS 4096 /* what the table keeps until then */

static int has_watch(const struct trace_reader *reader)
{
	for (uint32_t i = 0; i < reader->meta.process_count; i++) {
		const struct trace_schema *schema = reader->meta.processes[i].schema;

		for (uint32_t j = 0; schema && j < schema->count; j++)
			if (watch_backtrace_has(schema->classes[j]))
				return 1;
	}
	return 0;
}

/* The event's field `how`; 0: it has none. */
static uint64_t how_of(const struct merge_event *event)
{
	const struct trace_class *class = event->class;
	const uint8_t *at = event->fields;

	for (unsigned int i = 0; i < class->count; i++) {
		if (class->types[i] == WM_TYPE_U16 && !strcmp(class->fields[i], "how"))
			return (uint64_t)(at[0] | at[1] << 8);
		at += schema_type_bytes(class->types[i]);
	}
	return 0;
}

static int hit_add(struct report_watches *watches, const struct merge_event *event)
{
	struct watch_hit hit = { .time_ns = event->ns,
				 .pid = event->pid,
				 .tid = event->tid,
				 .is_read = (how_of(event) & WATCH_READ) != 0 };
	int watch = writers_watch(watches->writers, event->class->name + strlen("watch:"));
	int err = watch < 0 ? watch : watch_backtrace_read(watches->wheres, event, &hit.backtrace);

	if (err)
		return err;
	hit.watch = (uint32_t)watch;
	hit.where = hit.backtrace.frames[0];
	return writers_add(watches->writers, &hit);
}

static int hits_read(struct report_watches *watches)
{
	struct merge_event event;
	struct merge *merge;
	int err = merge_open(&merge, watches->reader, 0, NULL, NULL);

	if (err)
		return err;
	for (uint64_t i = 1; !err && (err = merge_next(merge, &event)) > 0; i++) {
		err = event.class && watch_backtrace_has(event.class) ? hit_add(watches, &event)
								      : 0;
		if (i % SETTLE_HITS == 0)
			writers_settle(watches->writers, NULL, NULL);
	}
	merge_close(merge);
	return err;
}

static int counts_read(struct report_watches *watches, const struct facts *meta)
{
	watches->all = calloc(meta->watch_count + 1, sizeof(*watches->all));
	for (size_t i = 0; watches->all && i < meta->watch_count; i++) {
		struct report_watch *one = &watches->all[watches->count++];
		int err = figures_read(&one->watched, &one->unproven, &meta->watches[i]);

		if (err)
			return err;
	}
	return watches->all ? 0 : -ENOMEM;
}

int report_watches(struct report_watches *watches, const struct trace_reader *reader,
		   const char *dir)
{
	int err;

	*watches = (struct report_watches){ 0 };
	err = counts_read(watches, &reader->meta);
	if (err || !has_watch(reader))
		return err;
	err = trace_reader_open(&watches->reader, dir);
	if (!err)
		err = watch_wheres_read(&watches->wheres, watches->reader);
	if (!err)
		err = writers_new(&watches->writers, 0);
	return err ? err : hits_read(watches);
}

void report_watches_release(struct report_watches *watches)
{
	writers_free(watches->writers);
	watch_wheres_free(watches->wheres);
	if (watches->reader)
		trace_reader_close(watches->reader);
	for (size_t i = 0; i < watches->count; i++)
		watched_spec_release(&watches->all[i].watched);
	free(watches->all);
}
