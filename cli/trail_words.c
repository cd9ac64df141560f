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

static void put(struct out *out, const char *text)
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
	put(out, text);
	pad(out, strlen(text), width);
}

void words_number(struct out *out, uint64_t number, size_t width)
{
	char text[32];

	pad(out, (size_t)snprintf(text, sizeof(text), "%" PRIu64, number), width);
	put(out, text);
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
	put(out, text);
}

const char *words_line_text(const struct image_line *line, char text[WORDS_LINE_BYTES])
{
	if (!line->source)
		return NULL;
	snprintf(text, WORDS_LINE_BYTES, "%s:%u", name_last_part(line->source), line->line);
	return text;
}

/* "file.c:12"; "" where it is not known. */
static void line_text(struct image *image, uint64_t address, char *text, size_t bytes)
{
	struct image_line line;

	image_line(image, address, &line);
	text[0] = '\0';
	if (line.source)
		snprintf(text, bytes, "%s:%u", name_last_part(line.source), line.line);
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
	char line[PLACE_BYTES];

	line_text(image, address, line, sizeof(line));
	put_function(out, image, address, is_verbose, line[0] ? PLACE_WIDTH : 0);
	if (line[0])
		out_char(out, ' ');
	put(out, line);
}

void words_place_padded(struct out *out, struct image *image, uint64_t address, int is_verbose)
{
	char line[PLACE_BYTES];

	line_text(image, address, line, sizeof(line));
	put_function(out, image, address, is_verbose, PLACE_WIDTH);
	out_char(out, ' ');
	words_padded(out, line, LINE_WIDTH);
	out_char(out, ' ');
}

void words_at(struct out *out, struct image *image, uint64_t address, int is_verbose)
{
	char text[PLACE_BYTES];

	out_literal(out, " at ");
	if (is_verbose) {
		out_hex(out, address);
		out_char(out, ' ');
	}
	instruction_place(image, address, text, sizeof(text));
	put(out, text);
	line_text(image, address, text, sizeof(text));
	if (!text[0])
		return;
	out_literal(out, " (");
	put(out, text);
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

	put(out, path->stream->comm);
	out_char(out, '-');
	out_u64(out, path->stream->tid);
	out_literal(out, " (process ");
	out_u64(out, path->stream->pid);
	out_literal(out, "), by ");
	put(out, origin_name(path->origin));
	out_literal(out, ": ");
	put(out, quantity_show_count(path->blocks, count, sizeof(count)));
	put(out, path->blocks == 1 ? " block, " : " blocks, ");
	words_time(out, trail_ns(view->reader, path, path->stream->begin_ticks), view->begin_ns, 0);
	out_literal(out, " to ");
	words_time(out, trail_ns(view->reader, path, path->parts[path->count - 1].ticks),
		   view->begin_ns, 0);
	out_literal(out, " s");
	if (view->reader->live)
		out_literal(out, ", still being recorded");
	out_char(out, '\n');
}

void words_json_path(struct json *json, const struct trail_view *view,
		     const struct trail_path *path)
{
	words_json_thread(json, path);
	json_string(json, "origin", origin_name(path->origin));
	json_number(json, "blocks", path->blocks);
	words_json_time(json, "begin_s", trail_ns(view->reader, path, path->stream->begin_ticks),
			view->begin_ns);
	words_json_time(json, "end_s",
			trail_ns(view->reader, path, path->parts[path->count - 1].ticks),
			view->begin_ns);
	json_words(json, "damage", path->damage);
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
		put(out, name);
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
		put(out, words_signal(between->values[1], name));
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
	put(out, blocks == 1 ? " block" : " blocks");
}

static void put_signal(struct out *out, struct image *image, const struct trail_between *between)
{
	char name[32], place[PLACE_BYTES];

	if (between->values[0])
		out_literal(out, "signal ");
	put(out, words_signal(between->values[0], name));
	if (!between->values[1])
		return;
	put(out, between->values[0] ? ", handled by " : ", to ");
	instruction_place(image, between->values[1], place, sizeof(place));
	put(out, place);
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
		put(out, words_call(between->values[0], call));
		put_result(out, between->values[1]);
		break;
	case TRAIL_LOST:
		put_lost(out, between->values[0]);
		break;
	case TRAIL_GAP:
		if (trail_is_gap(between))
			out_literal(out, "gap: ran unrecorded ");
		put(out, gap_name(between->values[0]));
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

/* ---- JSON ---- */

void words_json_address(struct json *json, const char *key, uint64_t address)
{
	char text[32];

	snprintf(text, sizeof(text), "0x%" PRIx64, address);
	json_string(json, key, text);
}

/* "source" and "line". */
static void json_line_of(struct json *json, const struct image_line *line)
{
	json_words(json, "source", line->source);
	if (line->source)
		json_number(json, "line", line->line);
	else
		json_null(json, "line");
}

void words_json_place(struct json *json, const char *key, struct image *image, uint64_t address)
{
	const struct image_place *place = image_place(image, address);
	struct image_line line;

	image_line(image, address, &line);
	json_open(json, key, '{');
	words_json_address(json, "address", address);
	json_words(json, "function", place ? place->function : NULL);
	json_words(json, "linkage", place ? place->linkage : NULL);
	if (place && place->function)
		json_number(json, "offset", address - place->start);
	else
		json_null(json, "offset");
	json_words(json, "module", place && place->module ? place->module->path : NULL);
	if (place && place->module)
		words_json_address(json, "module_offset", address - place->module->base);
	else
		json_null(json, "module_offset");
	json_line_of(json, &line);
	json_close(json, '}');
}

void words_json_thread(struct json *json, const struct trail_path *path)
{
	json_number(json, "pid", path->stream->pid);
	json_number(json, "tid", path->stream->tid);
	json_string(json, "comm", path->stream->comm);
}

void words_json_time(struct json *json, const char *key, uint64_t ns, uint64_t begin_ns)
{
	json_decimal(json, key, (double)(int64_t)(ns - begin_ns) / 1e9, 9);
}

/* A number that may be negative; all are small. */
static void json_signed(struct json *json, const char *key, uint64_t value)
{
	if ((int64_t)value < 0 && (int64_t)value >= -ERRNO_MAX)
		json_decimal(json, key, (double)(int64_t)value, 0);
	else
		json_number(json, key, value);
}

static void json_end(struct json *json, const struct trail_between *between)
{
	static const char *const reasons[] = {
		[TRAIL_EXITED] = "exited",
		[TRAIL_KILLED] = "killed",
		[TRAIL_DETACHED] = "detached",
		[TRAIL_ENDED_WITH] = "with_process",
	};
	uint64_t reason = between->values[0];
	char name[32];

	json_words(json, "reason",
		   reason < sizeof(reasons) / sizeof(reasons[0]) ? reasons[reason] : NULL);
	json_signed(json, "number", between->values[1]);
	if (reason == TRAIL_KILLED || reason == TRAIL_ENDED_WITH)
		json_string(json, "signal", words_signal(between->values[1], name));
}

void words_json_event(struct json *json, struct image *image, const struct trail_between *between)
{
	uint64_t first = between->values[0], second = between->values[1];
	char name[32];

	json_string(json, "event", trail_shapes[between->event].name);
	switch ((enum trail_event)between->event) {
	case TRAIL_SIGNAL:
		json_number(json, "number", first);
		json_string(json, "signal", words_signal(first, name));
		if (second)
			words_json_place(json, "handler", image, second);
		else
			json_null(json, "handler");
		break;
	case TRAIL_SYSCALLED:
		json_number(json, "number", first);
		json_words(json, "call", syscall_name(first));
		json_signed(json, "result", second);
		json_words(json, "error",
			   is_error(second) ? strerrorname_np((int)-(int64_t)second) : NULL);
		break;
	case TRAIL_LOST:
		if (first)
			json_number(json, "blocks", first);
		else
			json_null(json, "blocks");
		break;
	case TRAIL_GAP:
		json_string(json, "reason", gap_name(first));
		break;
	case TRAIL_FORK:
		json_number(json, "child", first);
		break;
	case TRAIL_END:
		json_end(json, between);
		break;
	default:
		break;
	}
	if (between->has_at)
		words_json_place(json, "at", image, between->at);
	else
		json_null(json, "at");
}
