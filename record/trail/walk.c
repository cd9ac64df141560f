/* SPDX-License-Identifier: MIT */
/* The public API of trails: cursors. waymark/trail.h documents their promises. */
#include "target/process/call.h"
#include "record/trail/trail.h"

#include "read/history/image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#define TAKEN                                                                                      \
	(WM_BRANCH_JUMP | WM_BRANCH_CONDITIONAL | WM_BRANCH_CALL | WM_BRANCH_RETURN | WM_BRANCH_FAR)
#define CALLS (WM_BRANCH_CALL | WM_BRANCH_RETURN)

/* Between two instructions, or records. */
struct position {
	struct trail_cursor at;
	uint32_t passed; /* instructions of the block behind `at` that lie before */
	int depth;
};

struct wm_trail_cursor {
	struct snapshot snapshot; /* of a live trail */
	struct path_index own;
	const struct path_index *index;
	int *depths; /* at the begin of each part */
	struct image *image;
	struct branch_thread of;
	struct position here;
};

/* A piece that a cursor went over. */
struct piece {
	struct trail_item item;
	struct wm_branch branch;
	uint64_t start, last;
	uint32_t instructions;
	const uint8_t *code;
	uint32_t code_bytes;
};

/* ---- depth ---- */

static int depth_of(const struct trail_item *item)
{
	if (!item->block) {
		if (item->between->event == TRAIL_SIGNAL)
			return item->between->values[1] != 0;
		return -(item->between->event == TRAIL_SYSCALLED &&
			 item->between->values[0] == SYS_rt_sigreturn);
	}
	if (item->ran < item->block->instructions)
		return 0;
	if (item->block->kind == TRAIL_RETURN)
		return -1;
	return item->block->kind == TRAIL_CALL || item->block->kind == TRAIL_CALL_INDIRECT;
}

static int depths_init(struct wm_trail_cursor *cursor)
{
	struct trail_cursor at = { .path = cursor->index->path };
	struct trail_item item;
	int depth = 0;

	cursor->depths = calloc(at.path->count + 1, sizeof(*cursor->depths));
	if (!cursor->depths)
		return -ENOMEM;
	while (trail_next(&at, &item)) {
		depth += depth_of(&item);
		if (!at.id)
			cursor->depths[at.part] = depth;
	}
	return 0;
}

static void depth_find(struct wm_trail_cursor *cursor)
{
	struct trail_cursor at = cursor->here.at;
	struct trail_item item;

	cursor->here.depth = cursor->depths[at.part];
	while (at.id) {
		trail_previous(&at, &item);
		cursor->here.depth += depth_of(&item);
	}
}

/* ---- pieces ---- */

/* Instructions `from` up to `to` of the block of piece->item, whose record ends at `behind`. */
static void piece_block(const struct wm_trail_cursor *cursor, struct piece *piece,
			const struct trail_cursor *behind, uint32_t from, uint32_t to)
{
	const struct trail_item *item = &piece->item;
	struct trail_entry entry = branch_entry(item->block);
	const uint8_t *code = trail_table_code(item->table, item->block);
	uint16_t offsets[TRAIL_BLOCK_INSTRUCTIONS_MAX + 1];
	uint32_t count = branch_offsets(&entry, code, offsets);

	offsets[count] = entry.bytes;
	if (count < entry.instructions) { /* its instructions are not known */
		from = 0;
		to = 1;
	}
	piece->start = entry.start + offsets[from];
	piece->last = to > from ? entry.start + offsets[to - 1] : piece->start;
	if (count < entry.instructions && item->ran == entry.instructions)
		piece->last = entry.start + entry.last;
	piece->instructions = count < entry.instructions ? item->ran : to - from;
	piece->code = code ? code + offsets[from] : NULL;
	piece->code_bytes = code && count == entry.instructions
				    ? (uint32_t)(offsets[from + 1] - offsets[from])
				    : 0;
	piece->branch = (struct wm_branch){ .size = sizeof(piece->branch) };
	if (!from)
		snapshot_branch(behind, cursor->of, &piece->branch);
	piece->branch.to = piece->start;
	piece->branch.last = piece->last;
	piece->branch.instructions = piece->instructions;
	piece->branch.tid = cursor->of.tid;
	piece->branch.pid = cursor->of.pid;
	piece->branch.monotonic_ns = item->ticks;
}

static void piece_event(const struct wm_trail_cursor *cursor, struct piece *piece,
			const struct trail_cursor *behind)
{
	piece->branch = (struct wm_branch){ .size = sizeof(piece->branch) };
	snapshot_branch(behind, cursor->of, &piece->branch);
	piece->start = piece->last = piece->branch.from;
	piece->instructions = 0;
	piece->code = NULL;
	piece->code_bytes = 0;
}

/* How many of its instructions a cursor can step over: 1 where their offsets are unknown. */
static uint32_t steppable(const struct trail_item *item)
{
	struct trail_entry entry;
	uint16_t offsets[TRAIL_BLOCK_INSTRUCTIONS_MAX];

	if (!item->block || !item->ran)
		return 0;
	entry = branch_entry(item->block);
	return branch_offsets(&entry, trail_table_code(item->table, item->block), offsets) ==
			       entry.instructions
		       ? item->ran
		       : 1;
}

/* Over the rest of a block, of `most` instructions; or over an event. 0 at the end. */
static int go_on(const struct wm_trail_cursor *cursor, struct position *here, struct piece *piece,
		 uint32_t most)
{
	struct trail_cursor behind = here->at;
	uint32_t count, from = here->passed, to;

	if (!trail_next(&behind, &piece->item))
		return 0;
	if (!piece->item.block) {
		piece_event(cursor, piece, &behind);
	} else {
		count = steppable(&piece->item);
		to = count - from < most ? count : from + most;
		piece_block(cursor, piece, &behind, from, to);
		here->passed = to;
		if (to < count)
			return 1;
	}
	here->passed = 0;
	here->at = behind;
	here->depth += depth_of(&piece->item);
	return 1;
}

/* The same, back. */
static int go_back(const struct wm_trail_cursor *cursor, struct position *here, struct piece *piece,
		   uint32_t most)
{
	struct trail_cursor before = here->at, behind = here->at;
	uint32_t to = here->passed, from;

	if (to) {
		trail_next(&behind, &piece->item);
	} else {
		if (!trail_previous(&before, &piece->item))
			return 0;
		to = steppable(&piece->item);
		here->at = before;
		here->depth -= depth_of(&piece->item);
	}
	here->passed = 0;
	if (!piece->item.block) {
		piece_event(cursor, piece, &behind);
		return 1;
	}
	from = to < most ? 0 : to - most;
	here->passed = from;
	piece_block(cursor, piece, &behind, from, to);
	return 1;
}

typedef int (*go_fn)(const struct wm_trail_cursor *cursor, struct position *here,
		     struct piece *piece, uint32_t most);

/* ---- units ---- */

static int is_met(const struct piece *piece, enum wm_trail_unit unit)
{
	if (piece->branch.flags & WM_BRANCH_EVENT)
		return 1;
	switch (unit) {
	case WM_TRAIL_UNIT_BRANCHES:
		return !!(piece->branch.flags & TAKEN);
	case WM_TRAIL_UNIT_CALLS:
		return !!(piece->branch.flags & CALLS);
	default:
		return piece->instructions > 0;
	}
}

static int is_same_line(const struct image_line *a, const struct image_line *b)
{
	return a->line == b->line && (a->source == b->source ||
				      (a->source && b->source && !strcmp(a->source, b->source)));
}

/* The image of the piece's time: other modules may have been at its addresses since. */
static struct image *image_of(const struct wm_trail_cursor *cursor, const struct piece *piece)
{
	struct image *image = image_in(cursor->image, piece->item.table);

	return image ? image : cursor->image;
}

/* More instructions of the piece's line, up to an event. */
static void line_grow(struct wm_trail_cursor *cursor, go_fn go, struct piece *piece)
{
	struct position here = cursor->here;
	struct image_line line, other;
	struct piece more;

	image_line(image_of(cursor, piece), piece->start, &line);
	while (go(cursor, &here, &more, 1) && !(more.branch.flags & WM_BRANCH_EVENT)) {
		image_line(image_of(cursor, &more), more.start, &other);
		if (more.instructions && !is_same_line(&line, &other))
			break;
		cursor->here = here;
		if (go == go_on) {
			piece->last = more.last;
			piece->instructions += more.instructions;
			continue;
		}
		more.last = piece->last;
		more.instructions += piece->instructions;
		*piece = more;
	}
	piece->branch.last = piece->last;
	piece->branch.instructions = piece->instructions;
}

static void step_make(struct wm_trail_cursor *cursor, const struct piece *piece,
		      struct wm_trail_step *step)
{
	struct wm_trail_step made = { .size = step->size < sizeof(made) ? step->size : sizeof(made),
				      .branch = piece->branch,
				      .start = piece->start,
				      .last = piece->last,
				      .instructions = piece->instructions,
				      .code = piece->code,
				      .code_bytes = piece->code_bytes,
				      .depth = cursor->here.depth };
	struct image *image = image_of(cursor, piece);
	const struct image_place *place = image_place(image, piece->start);
	struct image_line line = { 0 };

	if (piece->start)
		image_line(image, piece->start, &line);
	if (place && piece->start) {
		made.module = place->module ? place->module->path : NULL;
		made.function = place->function;
		made.function_start = place->start;
	}
	made.source = line.source;
	made.line = line.line;
	memcpy(step, &made, made.size);
}

static int walk(struct wm_trail_cursor *cursor, enum wm_trail_unit unit, struct wm_trail_step *step,
		go_fn go)
{
	struct session_call call SESSION_CALL = session_call_begin();
	int is_fine = unit == WM_TRAIL_UNIT_INSTRUCTIONS || unit == WM_TRAIL_UNIT_LINES;
	struct piece piece;

	if (!cursor || !step || step->size < sizeof(step->size) || unit < WM_TRAIL_UNIT_BRANCHES ||
	    unit > WM_TRAIL_UNIT_CALLS)
		return -EINVAL;
	do {
		if (!go(cursor, &cursor->here, &piece, is_fine ? 1 : UINT32_MAX))
			return 0;
	} while (!is_met(&piece, unit));
	if (unit == WM_TRAIL_UNIT_LINES && !(piece.branch.flags & WM_BRANCH_EVENT))
		line_grow(cursor, go, &piece);
	step_make(cursor, &piece, step);
	return 1;
}

int wm_trail_cursor_next(struct wm_trail_cursor *cursor, enum wm_trail_unit unit,
			 struct wm_trail_step *step)
{
	return walk(cursor, unit, step, go_on);
}

int wm_trail_cursor_previous(struct wm_trail_cursor *cursor, enum wm_trail_unit unit,
			     struct wm_trail_step *step)
{
	return walk(cursor, unit, step, go_back);
}

int wm_trail_cursor_seek(struct wm_trail_cursor *cursor, uint64_t index)
{
	struct session_call call SESSION_CALL = session_call_begin();
	uint64_t records;

	if (!cursor)
		return -EINVAL;
	records = cursor->index->records;
	snapshot_path_seek(cursor->index, index < records ? records - 1 - index : 0,
			   &cursor->here.at);
	cursor->here.passed = 0;
	depth_find(cursor);
	return 0;
}

void wm_trail_cursor_seek_end(struct wm_trail_cursor *cursor)
{
	struct session_call call SESSION_CALL = session_call_begin();
	if (!cursor)
		return;
	cursor->here = (struct position){ .at.path = cursor->index->path };
	trail_seek_end(&cursor->here.at);
	depth_find(cursor);
}

/* ---- opened and closed ---- */

static int cursor_fill(struct wm_trail_cursor *cursor, struct wm_trail *trail, pid_t tid)
{
	const struct fact_process *process;
	int err = 0;

	if (trail->recorded) {
		cursor->index = trail_recorded_path(trail, tid);
		if (!cursor->index)
			return trail_fail(trail, -ESRCH, "tid %d: no such thread in the trail",
					  (int)tid);
		cursor->of = (struct branch_thread){ (pid_t)cursor->index->path->stream->pid,
						     (pid_t)cursor->index->path->stream->tid };
		process = &trail->recorded->reader->meta
				   .processes[cursor->index->path->stream->process];
	} else {
		const struct store_thread *thread = trail_thread_of(trail, tid);

		if (!thread)
			return trail_fail(trail, -ESRCH, "tid %d: no such thread in the trail",
					  (int)tid);
		cursor->of = trail_thread_name(trail, thread);
		err = snapshot_take(&cursor->snapshot, trail->store, thread, trail->pid);
		if (!err)
			err = snapshot_path_init(&cursor->own, &cursor->snapshot.path);
		cursor->index = &cursor->own;
		process = &cursor->snapshot.process;
	}
	if (!err)
		err = depths_init(cursor);
	if (!err)
		err = image_open(&cursor->image, process, NULL);
	if (!err)
		wm_trail_cursor_seek_end(cursor);
	return err;
}

int wm_trail_cursor_open(struct wm_trail_cursor **out, struct wm_trail *trail, pid_t tid)
{
	struct wm_trail_cursor *cursor;
	int state, err;

	if (!out)
		return -EINVAL;
	*out = NULL;
	err = trail_enter_reading(trail, &state);
	if (err)
		return err;
	trail_fd_lower(trail);
	cursor = calloc(1, sizeof(*cursor));
	err = cursor ? cursor_fill(cursor, trail, tid) : -ENOMEM;
	trail_leave(trail, state);
	if (err)
		wm_trail_cursor_close(cursor);
	else
		*out = cursor;
	return err;
}

void wm_trail_cursor_close(struct wm_trail_cursor *cursor)
{
	struct session_call call SESSION_CALL = session_call_begin();
	if (!cursor)
		return;
	image_close(cursor->image);
	free(cursor->depths);
	snapshot_path_release(&cursor->own);
	snapshot_release(&cursor->snapshot);
	free(cursor);
}
