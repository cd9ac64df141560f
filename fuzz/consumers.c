/* SPDX-License-Identifier: MIT */
#include "fuzz/consumers.h"

#include "record/session/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIDE 16u /* bytes of the watched value */

/* A watch of 16 bytes, as if it were armed. */
static void watched_make(struct watched_list *list)
{
	struct watched_spec *spec = calloc(1, sizeof(*spec));
	struct watch_type type = { .node_count = 1, .names_bytes = 1 };

	type.nodes = calloc(1, sizeof(*type.nodes));
	type.names = calloc(1, 1);
	if (!spec || !type.nodes || !type.names)
		abort();
	*spec = (struct watched_spec){ .words = strdup("wide"), .processes = 1, .bytes = WIDE };
	*type.nodes = (struct watch_node){ .class = WATCH_UNSIGNED, .bytes = WIDE };
	if (watched_type_take(spec, 0, &type))
		abort();
	*list = (struct watched_list){ .all = spec, .count = 1 };
}

void consumers_make(struct consumers *consumers, struct wm_session *session)
{
	watched_make(&consumers->watched);
	consumers->count.has_kernel = consumers->count.has_switches = 1;
	if (watch_wheres_new(&consumers->wheres, session) || writers_new(&consumers->table, 8) ||
	    watch_hits_new(&consumers->hits, session, consumers->table, consumers->wheres, 0) ||
	    top_count_init(&consumers->count) || top_symbols_open(&consumers->symbols))
		abort();
}

static int hear(const struct wm_event *event, void *data)
{
	struct consumers *consumers = data;

	if (watch_hits_add(consumers->hits, event) ||
	    top_count_take(&consumers->count, event) < 0 ||
	    (event->kind == 's' && top_sums_take(&consumers->sums, consumers->symbols, event)))
		abort();
	return 0;
}

void consumers_read(struct consumers *consumers, struct wm_session *session)
{
	struct watched_list *own = session->watched;
	static FILE *null;
	static struct out out;
	struct rows rows;

	if (!null)
		null = fopen("/dev/null", "we");
	session->watched = &consumers->watched;
	(void)wm_session_read(session, hear, consumers);
	session->watched = own;
	if (watch_hits_settle(consumers->hits, 0))
		abort();
	writers_settle(consumers->table, NULL, NULL);
	out_init(&out, fileno(null));
	rows_begin(&rows, &out, ROWS_TEXT);
	rows.columns = 80;
	writers_rows(consumers->table, 0, 0, &rows);
	if (rows_end(&rows))
		abort();
	writers_history(consumers->table, 0, null);
	top_threads_settle(&consumers->count.threads, UINT64_MAX);
	top_count_next(&consumers->count);
	sums_lines_sort(&consumers->sums.lines);
	sums_lines_clear(&consumers->sums.lines);
}

void consumers_release(struct consumers *consumers)
{
	watch_hits_free(consumers->hits);
	writers_free(consumers->table);
	watch_wheres_free(consumers->wheres);
	top_count_release(&consumers->count);
	top_sums_release(&consumers->sums);
	top_symbols_close(consumers->symbols);
	watched_list_release(&consumers->watched);
}
