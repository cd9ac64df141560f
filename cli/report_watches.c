/* SPDX-License-Identifier: MIT */
#include "cli/report.h"

#include "abi/watch.h"
#include "cli/watch_counts.h"
#include "record/watch/figures.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WRITERS_SHOWN 20 /* of each watch */
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

static int hit_add(struct report_watches *watches, const struct merge_event *merged)
{
	struct wm_event_field fields[SCHEMA_FIELDS_MAX];
	struct wm_event event;
	struct watch_hit hit = { .time_ns = merged->ns, .pid = merged->pid, .tid = merged->tid };
	int watch = writers_watch(watches->writers, merged->class->name + strlen("watch:"));
	uint64_t how = 0;
	int err;

	if (watch < 0)
		return watch;
	merge_event_make(merged, &event, fields);
	err = watch_backtrace_event(watches->wheres, merged->stream->process, &event,
				    &hit.backtrace);
	if (err)
		return err;
	(void)wm_event_field_u64(wm_event_field_find(&event, "how"), &how);
	hit.is_read = (how & WATCH_READ) != 0;
	hit.watch = (uint32_t)watch;
	hit.where = hit.backtrace.frames[0];
	return writers_add(watches->writers, &hit);
}

static int hits_want(const struct pass_observer *observer, uint32_t process,
		     const struct trace_class *class)
{
	(void)observer;
	(void)process;
	return watch_backtrace_has(class);
}

static int hits_take(struct pass_observer *observer, const struct merge_event *event)
{
	struct report_watches *watches = (struct report_watches *)observer;
	int err;

	if (!event->class || !watch_backtrace_has(event->class))
		return 0;
	err = hit_add(watches, event);
	if (++watches->hits % SETTLE_HITS == 0)
		writers_settle(watches->writers, NULL, NULL);
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
		   struct watch_wheres *wheres)
{
	int err;

	*watches = (struct report_watches){ .observer = { hits_want, hits_take },
					    .wheres = wheres };
	err = counts_read(watches, &reader->meta);
	if (err || !has_watch(reader))
		return err;
	return writers_new(&watches->writers, 0);
}

void report_watches_release(struct report_watches *watches)
{
	writers_free(watches->writers);
	for (size_t i = 0; i < watches->count; i++)
		watched_spec_release(&watches->all[i].watched);
	free(watches->all);
}

/* As `record` and `watch` print them. */
static void counts_text(const struct report_watches *watches, struct rows *rows)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *to = open_memstream(&text, &bytes);

	if (!to) {
		rows->out->error = -ENOMEM;
		return;
	}
	for (size_t i = 0; i < watches->count; i++) {
		fprintf(to, "%-12s ", i ? "" : "Watches");
		watch_counts_text(&watches->all[i].watched, watches->all[i].unproven,
				  "             ", to);
	}
	fclose(to);
	out_text(rows->out, text, bytes);
	free(text);
}

void report_watches_print(const struct report_watches *watches, struct rows *rows)
{
	if (rows->format == ROWS_TEXT) {
		counts_text(watches, rows);
	} else {
		rows_open(rows, &watch_table, NULL);
		for (size_t i = 0; i < watches->count; i++)
			watch_row(rows, &watches->all[i].watched, watches->all[i].unproven);
		rows_close(rows);
	}
	if (watches->writers)
		writers_rows(watches->writers, 0, WRITERS_SHOWN, rows);
}
