/* SPDX-License-Identifier: MIT */
/*
 * Watches that other sessions' events serve, and those that no session serves any more: sharing.h.
 */
#include "session/watch/watching_own.h"

#include "session/watch/watching.h"

static struct watching *find_piece(const struct process *process, uint32_t number,
				   unsigned int *piece)
{
	for (struct watching *w = process->watching; w; w = w->next)
		for (*piece = 0; *piece < w->count; ++*piece)
			if (w->all[*piece].number == number)
				return w;
	return NULL;
}

void watching_alone(struct process *process, uint32_t number, uint64_t since_ns)
{
	unsigned int piece;
	struct watching *watching = find_piece(process, number, &piece);

	if (watching)
		sharing_alone(&watching->sharing, piece, since_ns);
	else if (number < WATCH_ROWS_MAX) /* a pass is just arming it */
		process->watch.alone |= UINT64_C(1) << number;
}

/* We have our own event now instead of another session's. Hits up to here are not in its count. */
static int settle_taken(void *data, unsigned int part)
{
	struct watching *watching = data;
	struct watch_row *row = &watching->table->rows[watching->all[part].number];

	watching->sharing.parts[part].before = row->taken + row->dropped;
	watched_value(watching, &watching->all[part]);
	__atomic_store_n(&row->gate, WATCH_GATE(0, WATCH_ON), __ATOMIC_RELEASE);
	return 0;
}

void watching_step(struct wm_session *session, struct process *process)
{
	struct sharing_end end;

	if (!process->watching || process->watch.is_arming)
		return;
	for (; process->watch.alone; process->watch.alone &= process->watch.alone - 1) {
		unsigned int piece;
		struct watching *watching = find_piece(
			process, (uint32_t)__builtin_ctzll(process->watch.alone), &piece);

		if (watching)
			sharing_alone(&watching->sharing, piece, 0);
	}
	for (struct watching *w = process->watching; w; w = w->next)
		while (!w->changing && sharing_step(&w->sharing, w->object, settle_taken, w, &end))
			sharing_over(&end, watched_result(session, w->all[end.part].spec));
}
