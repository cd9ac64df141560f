/* SPDX-License-Identifier: MIT */
#include "cli/trail_words.h"

#include "base/name_match.h"
#include "base/quantity.h"
#include "base/signal_name.h"
#include "base/syscall_name.h"
#include "read/history/instruction.h"
#include "trace/trail/event.h"
#include "trace/trail/range.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define PLACE_BYTES 4096
#define ADDRESS_WIDTH 14
#define PLACE_WIDTH 26
#define LINE_WIDTH 18

/* The kernel's own, which no program sees: include/linux/errno.h. */
#define ERESTART_FIRST 512
#define ERESTART_LAST 516
#define ERRNO_MAX 4095 /* results from -4095 on are errors */

static const char *const origins[] = {
	[TRAIL_STEP] = "step", [TRAIL_PT] = "pt", [TRAIL_BTS] = "bts", [TRAIL_SOFT] = "soft"
};

static const char *origin_name(uint32_t origin)
{
	int is_known = origin < sizeof(origins) / sizeof(origins[0]) && origins[origin];

	return is_known ? origins[origin] : "?";
}

/* ---- text ---- */

void words_put(struct out *out, const char *text)
{
	out_escaped(out, text, strlen(text));
}

static void pad(struct out *out, size_t used, size_t width)
{
	for (; used < width; used++)
		out_char(out, ' ');
}

void words_padded(struct out *out, const char *text, size_t width)
{
	words_put(out, text);
	pad(out, strlen(text), width);
}

void words_number(struct out *out, uint64_t number, size_t width)
{
	char text[32];

	pad(out, (size_t)snprintf(text, sizeof(text), "%" PRIu64, number), width);
	words_put(out, text);
}

static int time_text(char text[48], uint64_t ns, uint64_t begin_ns)
{
	uint64_t apart = ns >= begin_ns ? ns - begin_ns : begin_ns - ns;

	return snprintf(text, 48, "%s%" PRIu64 ".%09" PRIu64, ns < begin_ns ? "-" : "",
			apart / 1000000000, apart % 1000000000);
}

void words_time(struct out *out, uint64_t ns, uint64_t begin_ns, size_t width)
{
	char text[48];

	pad(out, (size_t)time_text(text, ns, begin_ns), width);
	words_put(out, text);
}

const char *words_line_text(const struct image_line *line, char text[WORDS_LINE_BYTES])
{
	if (!line->source)
		return NULL;
	snprintf(text, WORDS_LINE_BYTES, "%s:%u", name_last_part(line->source), line->line);
	return text;
}

/* The same of an address; "" where it is not known. */
static const char *line_text(struct image *image, uint64_t address, char text[WORDS_LINE_BYTES])
{
	struct image_line line;

	image_line(image, address, &line);
	return line.source ? words_line_text(&line, text) : "";
}

static void put_function(struct out *out, struct image *image, uint64_t address, int is_verbose,
			 size_t width)
{
	char text[PLACE_BYTES];

	if (is_verbose) {
		snprintf(text, sizeof(text), "0x%" PRIx64, address);
		words_padded(out, text, ADDRESS_WIDTH);
		out_char(out, ' ');
	}
	instruction_place(image, address, text, sizeof(text));
	words_padded(out, text, width);
}

void words_place(struct out *out, struct image *image, uint64_t address, int is_verbose)
{
	char room[WORDS_LINE_BYTES];
	const char *line = line_text(image, address, room);

	put_function(out, image, address, is_verbose, line[0] ? PLACE_WIDTH : 0);
	if (line[0])
		out_char(out, ' ');
	words_put(out, line);
}

void words_place_padded(struct out *out, struct image *image, uint64_t address, int is_verbose)
{
	char line[WORDS_LINE_BYTES];

	put_function(out, image, address, is_verbose, PLACE_WIDTH);
	out_char(out, ' ');
	words_padded(out, line_text(image, address, line), LINE_WIDTH);
	out_char(out, ' ');
}

void words_at(struct out *out, struct image *image, uint64_t address, int is_verbose)
{
	char text[PLACE_BYTES], room[WORDS_LINE_BYTES];
	const char *line;

	out_literal(out, " at ");
	if (is_verbose) {
		out_hex(out, address);
		out_char(out, ' ');
	}
	instruction_place(image, address, text, sizeof(text));
	words_put(out, text);
	line = line_text(image, address, room);
	if (!line[0])
		return;
	out_literal(out, " (");
	words_put(out, line);
	out_char(out, ')');
}

const char *words_kind(uint8_t kind)
{
	static const char *const names[TRAIL_KINDS] = {
		[TRAIL_FALL] = "none",
		[TRAIL_JUMP] = "jump",
		[TRAIL_BRANCH] = "conditional",
		[TRAIL_CALL] = "call",
		[TRAIL_JUMP_INDIRECT] = "indirect jump",
		[TRAIL_CALL_INDIRECT] = "indirect call",
		[TRAIL_RETURN] = "return",
		[TRAIL_SYSCALL] = "system call",
		[TRAIL_STOP] = "stop",
		[TRAIL_FAR] = "far",
	};

	return names[kind];
}

const uint8_t *words_code(struct image *image, const struct trail_table *table,
			  const struct trail_block *block, uint8_t room[TRAIL_BLOCK_BYTES_MAX])
{
	const uint8_t *code = trail_table_code(table, block);

	if (!code && block->bytes <= TRAIL_BLOCK_BYTES_MAX &&
	    image_code(image, block->start, room, block->bytes) == block->bytes)
		code = room;
	return code;
}

void words_thread(struct out *out, const struct trail_view *view, const struct trail_path *path)
{
	char count[32];

	words_put(out, path->stream->comm);
	out_char(out, '-');
	out_u64(out, path->stream->tid);
	out_literal(out, " (process ");
	out_u64(out, path->stream->pid);
	out_literal(out, "), by ");
	words_put(out, origin_name(path->origin));
	out_literal(out, ": ");
	words_put(out, quantity_show_count(path->blocks, count, sizeof(count)));
	words_put(out, path->blocks == 1 ? " block, " : " blocks, ");
	words_time(out, trail_ns(view->reader, path, path->stream->begin_ticks), view->begin_ns, 0);
	out_literal(out, " to ");
	words_time(out, trail_ns(view->reader, path, path->parts[path->count - 1].ticks),
		   view->begin_ns, 0);
	out_literal(out, " s");
	if (view->reader->live)
		out_literal(out, ", still being recorded");
	out_char(out, '\n');
}

static const struct row_column thread_columns[] = {
	WORDS_THREAD_COLUMNS,
	{ "origin", ROW_TEXT, ROW_PLAIN, 0, "soft, pt, bts, step" },
	{ "blocks", ROW_U64, ROW_COUNT, 0, "that ran" },
	{ "begin", ROW_S64, ROW_SINCE, 0, "of the trail" },
	{ "end", ROW_S64, ROW_SINCE, 0, "of the trail" },
	{ "damage", ROW_TEXT, ROW_PLAIN, 0, "why the rest can't be read; null: all can" },
};
static ROW_TABLE(trail_thread_table, "trail_thread",
		 "A thread's trail (waymark trail --json): what it did follows.", thread_columns);

void words_thread_put(struct rows *rows, const struct trail_view *view,
		      const struct trail_path *path)
{
	uint64_t begin = trail_ns(view->reader, path, path->stream->begin_ticks);
	uint64_t end = trail_ns(view->reader, path, path->parts[path->count - 1].ticks);
	struct row_value row[WORDS_THREAD_VALUES + 5], *at = row + WORDS_THREAD_VALUES;

	words_thread_row(row, path);
	*at++ = row_text(origin_name(path->origin));
	*at++ = row_u64(path->blocks);
	*at++ = row_s64((int64_t)(begin - view->begin_ns));
	*at++ = row_s64((int64_t)(end - view->begin_ns));
	*at = row_words(path->damage);
	rows_record(rows, &trail_thread_table, row);
}

const char *words_signal(uint64_t number, char text[32])
{
	/* abi/trail.h: where the kernel is recorded too */
	return number ? signal_name_show(number, text) : "an interrupt";
}

static const char *gap_name(uint64_t reason)
{
	static const char *const names[] = {
		[TRAIL_GAP_NATIVE] = "as native code",
		[TRAIL_GAP_KERNEL] = "in the kernel",
		[TRAIL_GAP_SUSPENDED] = "while recording was off",
		[TRAIL_GAP_ELSEWHERE] = "in other modules",
		[TRAIL_GAP_BREAKPOINT] = "another tool's breakpoint",
	};

	return reason < sizeof(names) / sizeof(names[0]) ? names[reason] : "for another reason";
}

const char *words_call(uint64_t number, char text[48])
{
	const char *name = syscall_name(number);

	if (name)
		snprintf(text, 48, "system call %s", name);
	else
		snprintf(text, 48, "system call %" PRId64, (int64_t)number);
	return text;
}

static int is_error(uint64_t result)
{
	return (int64_t)result < 0 && (int64_t)result >= -ERRNO_MAX;
}

/* A result, as strace prints it; the kernel's internal ones (ERESTARTSYS) have no name. */
static void put_result(struct out *out, uint64_t result)
{
	const char *name = is_error(result) ? strerrorname_np((int)-(int64_t)result) : NULL;

	out_literal(out, " = ");
	if (is_error(result) && (int64_t)result <= -ERESTART_FIRST &&
	    (int64_t)result >= -ERESTART_LAST) {
		out_literal(out, "? (interrupted, to be made again)");
	} else if (name) {
		out_char(out, '-');
		words_put(out, name);
	} else if ((int64_t)result < -ERRNO_MAX || result > UINT32_MAX) {
		out_hex(out, result); /* most likely an address */
	} else {
		out_i64(out, (int64_t)result);
	}
}

static void put_end(struct out *out, const struct trail_between *between)
{
	char name[32];

	switch ((enum trail_ending)between->values[0]) {
	case TRAIL_EXITED:
		out_literal(out, "ended: exited with ");
		out_i64(out, (int64_t)between->values[1]);
		break;
	case TRAIL_KILLED:
		out_literal(out, "killed by ");
		words_put(out, words_signal(between->values[1], name));
		break;
	case TRAIL_ENDED_WITH:
		out_literal(out, "ended with the process");
		break;
	case TRAIL_DETACHED:
		out_literal(out, "recording ended, the thread continues");
		break;
	default:
		out_literal(out, "ended");
	}
}

static void put_lost(struct out *out, uint64_t blocks)
{
	if (!blocks) {
		out_literal(out, "lost blocks, number unknown");
		return;
	}
	out_literal(out, "lost ");
	out_u64(out, blocks);
	words_put(out, blocks == 1 ? " block" : " blocks");
}

static void put_signal(struct out *out, struct image *image, const struct trail_between *between)
{
	char name[32], place[PLACE_BYTES];

	if (between->values[0])
		out_literal(out, "signal ");
	words_put(out, words_signal(between->values[0], name));
	if (!between->values[1])
		return;
	words_put(out, between->values[0] ? ", handled by " : ", to ");
	instruction_place(image, between->values[1], place, sizeof(place));
	words_put(out, place);
}

void words_event(struct out *out, struct image *image, const struct trail_between *between)
{
	char call[48];

	switch ((enum trail_event)between->event) {
	case TRAIL_DEPART:
		out_literal(out, "switched out");
		break;
	case TRAIL_ARRIVE:
		out_literal(out, "switched in");
		break;
	case TRAIL_SIGNAL:
		put_signal(out, image, between);
		break;
	case TRAIL_SYSCALLED:
		words_put(out, words_call(between->values[0], call));
		put_result(out, between->values[1]);
		break;
	case TRAIL_LOST:
		put_lost(out, between->values[0]);
		break;
	case TRAIL_GAP:
		if (trail_is_gap(between))
			out_literal(out, "gap: ran unrecorded ");
		words_put(out, gap_name(between->values[0]));
		break;
	case TRAIL_FORK:
		out_literal(out, "fork: child ");
		out_i64(out, (int64_t)between->values[0]);
		break;
	case TRAIL_EXEC:
		out_literal(out, "exec: another program in its place");
		break;
	default:
		put_end(out, between);
	}
}

/* ---- rows ---- */

void words_place_row(struct row_value *row, struct image *image, uint64_t address)
{
	const struct image_place *place = image_place(image, address);
	const struct image_module *module = place ? place->module : NULL;
	struct image_line line;

	image_line(image, address, &line);
	*row++ = row_address(address);
	*row++ = row_words(place ? place->function : NULL);
	*row++ = row_words(place ? place->linkage : NULL);
	*row++ = place && place->function ? row_u64(address - place->start) : row_null();
	*row++ = row_words(module ? module->path : NULL);
	*row++ = module ? row_address(address - module->base) : row_null();
	*row++ = row_words(line.source);
	*row = line.source ? row_u64(line.line) : row_null();
}

void words_thread_row(struct row_value *row, const struct trail_path *path)
{
	*row++ = row_u64(path->stream->pid);
	*row++ = row_u64(path->stream->tid);
	*row = row_text(path->stream->comm);
}

static const char *ending_name(uint64_t reason)
{
	static const char *const reasons[] = {
		[TRAIL_EXITED] = "exited",
		[TRAIL_KILLED] = "killed",
		[TRAIL_DETACHED] = "detached",
		[TRAIL_ENDED_WITH] = "with_process",
	};

	return reason < sizeof(reasons) / sizeof(reasons[0]) ? reasons[reason] : NULL;
}

void words_event_row(struct row_value *row, struct image *image,
		     const struct trail_between *between, char name[32])
{
	enum { EVENT, REASON, CHILD, NUMBER, SIGNAL, CALL, RESULT, ERROR, BLOCKS, HANDLER };
	uint64_t first = between->values[0], second = between->values[1];

	row[EVENT] = row_text(trail_shapes[between->event].name);
	switch ((enum trail_event)between->event) {
	case TRAIL_SIGNAL:
		row[NUMBER] = row_u64(first);
		row[SIGNAL] = row_text(words_signal(first, name));
		if (second)
			words_place_row(&row[HANDLER], image, second);
		break;
	case TRAIL_SYSCALLED:
		row[NUMBER] = row_s64((int64_t)first);
		row[CALL] = row_words(syscall_name(first));
		row[RESULT] = row_s64((int64_t)second);
		if (is_error(second))
			row[ERROR] = row_words(strerrorname_np((int)-(int64_t)second));
		break;
	case TRAIL_LOST:
		row[BLOCKS] = row_known(first);
		break;
	case TRAIL_GAP:
		row[REASON] = row_text(gap_name(first));
		break;
	case TRAIL_FORK:
		row[CHILD] = row_u64(first);
		break;
	case TRAIL_END:
		row[REASON] = row_text(ending_name(first));
		row[NUMBER] = row_s64((int64_t)second);
		if (first == TRAIL_KILLED || first == TRAIL_ENDED_WITH)
			row[SIGNAL] = row_text(words_signal(second, name));
		break;
	default:
		break;
	}
}
