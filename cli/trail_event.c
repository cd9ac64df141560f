/* SPDX-License-Identifier: MIT */
#include "cli/trail.h"

#include "cli/trail_words.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define INSN_BYTES_MAX 15
#define REGISTERS_A_LINE 4
#define REGISTER_WIDTH 20
#define ERROR_IS_WRITE 2u
#define ERROR_IS_FETCH 16u

static void put_head(struct trail_show *show, const struct trail_path *path, int is_first)
{
	if (show->options.json) {
		words_thread_put(&show->rows, &show->view, path);
		return;
	}
	if (!is_first)
		out_char(show->out, '\n');
	words_thread(show->out, &show->view, path);
}

int trail_each_path(struct trail_show *show,
		    int (*put)(struct trail_show *show, const struct trail_path *path,
			       struct image *image))
{
	int is_first = 1, err = 0;

	for (size_t i = 0; i < show->view.trails.path_count && !show->out->error && !err; i++) {
		const struct trail_path *path = &show->view.trails.paths[i];
		struct image *image;

		if (!trail_wants(&show->options.wanted, path->stream))
			continue;
		image = trail_view_image(&show->view, path);
		if (!image)
			return -ENOMEM;
		put_head(show, path, is_first);
		is_first = 0;
		err = put(show, path, image);
	}
	return err;
}

/* ---- a crash ---- */

struct code_words {
	int signal, code;
	const char *words;
};

static const struct code_words codes[] = {
	{ SIGSEGV, SEGV_MAPERR, "nothing is mapped there" },
	{ SIGSEGV, SEGV_ACCERR, "the mapping does not allow it" },
	{ SIGSEGV, SEGV_PKUERR, "a memory protection key forbids it" },
	{ SIGSEGV, SI_KERNEL,
	  "the processor does not say which address: one that is not canonical, or an instruction "
	  "that is not allowed" },
	{ SIGBUS, BUS_ADRALN, "the address is not aligned" },
	{ SIGBUS, BUS_ADRERR, "the file ends before it, or the memory can't be had" },
	{ SIGBUS, BUS_OBJERR, "the memory has an error" },
	{ SIGFPE, FPE_INTDIV, "an integer was divided by 0, or the quotient has too many bits" },
	{ SIGILL, ILL_ILLOPN, "an instruction that the processor does not have" },
	{ SIGILL, ILL_ILLOPC, "an instruction that the processor does not have" },
};

static uint64_t value_of(const struct trail_values *values, uint32_t number)
{
	return values->has[number] ? values->of[number] : 0;
}

/* NULL: an instruction raised it. */
static const char *sender_of(const struct trail_path *path, char text[64])
{
	uint64_t pid = value_of(path->values, TRAIL_VALUE_SENDER);

	if (!path->values->has[TRAIL_VALUE_SENDER])
		return NULL;
	if (pid == path->stream->pid)
		return "the program sent it to itself";
	if (!pid)
		return "a process out of sight sent it";
	snprintf(text, 64, "process %" PRIu64 " sent it", pid);
	return text;
}

static const char *cause_of(const struct trail_path *path, int signal, char text[64])
{
	int code = (int)value_of(path->values, TRAIL_VALUE_CODE);
	const char *sender = sender_of(path, text);

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]) && !sender; i++)
		if (codes[i].signal == signal && codes[i].code == code)
			return codes[i].words;
	if (sender)
		return sender;
	snprintf(text, 64, "si_code %d", code);
	return text;
}

/* The access to the address: "read" and so on. NULL: the processor does not report it. */
static const char *access_of(const struct trail_values *values)
{
	uint64_t error = value_of(values, TRAIL_VALUE_ERROR);

	if (!values->has[TRAIL_VALUE_ERROR])
		return NULL;
	return error & ERROR_IS_FETCH ? "execution" : error & ERROR_IS_WRITE ? "write" : "read";
}

/* For SIGSEGV and SIGBUS it is the accessed address; for others, the instruction's. */
static int has_address(const struct trail_values *values, int signal)
{
	return (signal == SIGSEGV || signal == SIGBUS) && values->has[TRAIL_VALUE_ADDRESS] &&
	       (int)value_of(values, TRAIL_VALUE_CODE) != SI_KERNEL;
}

/* The signal that killed it; 0: none. */
static int signal_of(const struct trail_path *path)
{
	const struct trail_part *last = path->count ? &path->parts[path->count - 1] : NULL;

	return last && !last->count && last->between.event == TRAIL_END &&
			       last->between.values[0] == TRAIL_KILLED && path->values
		       ? (int)last->between.values[1]
		       : 0;
}

/* ---- a crash as text ---- */

static void indent(struct out *out)
{
	words_padded(out, "", TRAIL_LEFT_WIDTH + 2);
}

struct arguments {
	struct out *out;
	struct rows *rows;
	uint32_t tid, frame, count, known;
};

static void value_text(const struct watch_type *type, const void *value,
		       char text[WATCH_TEXT_MAX + 1])
{
	text[expression_type_text(type, value, NULL, text, WATCH_TEXT_MAX)] = '\0';
}

static int count_argument(const char *name, const struct watch_type *type, const void *value,
			  void *data)
{
	struct arguments *arguments = data;

	(void)name, (void)type;
	arguments->known += value != NULL;
	return 0;
}

static int put_argument(const char *name, const struct watch_type *type, const void *value,
			void *data)
{
	struct arguments *arguments = data;
	char text[WATCH_TEXT_MAX + 1] = "?";

	if (value)
		value_text(type, value, text);
	if (arguments->count++)
		out_literal(arguments->out, ", ");
	words_put(arguments->out, name);
	out_char(arguments->out, '=');
	words_put(arguments->out, text);
	return 0;
}

static int has_arguments(const struct code_frame *frame)
{
	struct arguments arguments = { 0 };

	return !code_arguments(frame, count_argument, &arguments) && arguments.known;
}

void trail_crash_arguments(struct out *out, const struct code_frame *frame, const char *before)
{
	struct arguments arguments = { .out = out };

	if (!has_arguments(frame))
		return;
	words_put(out, before);
	code_arguments(frame, put_argument, &arguments);
}

static void put_fault(struct out *out, const struct trail_path *path, int signal)
{
	const char *access = access_of(path->values);
	char text[64];

	indent(out);
	if (has_address(path->values, signal)) {
		words_put(out, access ? access : "access");
		snprintf(text, sizeof(text), " of address 0x%" PRIx64 ": ",
			 path->values->of[TRAIL_VALUE_ADDRESS]);
		words_put(out, text);
	}
	words_put(out, cause_of(path, signal, text));
	out_char(out, '\n');
}

static void put_registers(struct out *out, const struct trail_values *values)
{
	for (uint32_t i = 0; i <= TRAIL_VALUE_RFLAGS; i++) {
		char text[32];

		if (i % REGISTERS_A_LINE == 0)
			indent(out);
		words_padded(out, crash_register(i), i < TRAIL_VALUE_RFLAGS ? 4 : 7);
		snprintf(text, sizeof(text), "0x%" PRIx64, value_of(values, i));
		if ((i + 1) % REGISTERS_A_LINE && i < TRAIL_VALUE_RFLAGS) {
			words_padded(out, text, REGISTER_WIDTH);
		} else {
			words_put(out, text);
			out_char(out, '\n');
		}
	}
}

/*
 * Lines behind the one of the thread's end: the fault, the innermost function's parameters, and for
 * a fault the registers. Nothing if the trace has no values.
 */
static void crash_text(struct out *out, const struct trail_path *path, struct image *image)
{
	static struct crash crash;
	int signal = signal_of(path);

	if (!signal)
		return;
	put_fault(out, path, signal);
	crash_init(&crash, path->values, image);
	if (crash.count && has_arguments(&crash.frames[0])) {
		indent(out);
		trail_crash_arguments(out, &crash.frames[0], "with ");
		out_char(out, '\n');
	}
	if (!path->values->has[TRAIL_VALUE_SENDER])
		put_registers(out, path->values);
}

/* ---- a crash as rows ---- */

static const struct row_column argument_columns[] = {
	{ "tid", ROW_U64, ROW_PLAIN, 0, "of the thread" },
	{ "frame", ROW_U64, ROW_PLAIN, 0, "its number" },
	{ "name", ROW_TEXT, ROW_PLAIN, 0, "of the parameter" },
	{ "c_type", ROW_TEXT, ROW_PLAIN, 0, "its type" },
	{ "value", ROW_TEXT, ROW_PLAIN, 0, "null: not known" },
};
static ROW_TABLE(argument_table, "argument", "Values of the parameters of a crash's frames.",
		 argument_columns);

static int put_argument_row(const char *name, const struct watch_type *type, const void *value,
			    void *data)
{
	const struct arguments *of = data;
	char text[WATCH_TEXT_MAX + 1] = "";
	const struct row_value row[] = { row_u64(of->tid), row_u64(of->frame), row_text(name),
					 row_text(value ? expression_type_name(type) : NULL),
					 row_text(value ? text : NULL) };

	if (value)
		value_text(type, value, text);
	rows_record(of->rows, &argument_table, row);
	return 0;
}

static const struct row_column frame_columns[] = {
	{ "tid", ROW_U64, ROW_PLAIN, 0, "of the thread" },
	{ "frame", ROW_U64, ROW_PLAIN, 0, "its number; the innermost is 0" },
	WORDS_PLACE_COLUMNS(""),
};
static ROW_TABLE(crash_frame_table, "crash_frame",
		 "The functions that a crash was in, by its stack.", frame_columns);

static void put_frame(struct arguments *of, const struct crash *crash)
{
	const struct code_frame *frame = &crash->frames[of->frame];
	struct row_value row[2 + WORDS_PLACE_VALUES] = { row_u64(of->tid), row_u64(of->frame) };

	words_place_row(&row[2], crash->image, code_frame_at(&frame->registers));
	rows_record(of->rows, &crash_frame_table, row);
	code_arguments(frame, put_argument_row, of);
}

static const struct row_column register_columns[] = {
	{ "tid", ROW_U64, ROW_PLAIN, 0, "of the thread" },
	{ "name", ROW_TEXT, ROW_PLAIN, 0, "of the register" },
	{ "value", ROW_ADDRESS, ROW_PLAIN, 0, "at the signal" },
};
static ROW_TABLE(register_table, "register", "The registers of a crash.", register_columns);

static const struct row_column crash_columns[] = {
	WORDS_THREAD_COLUMNS,
	{ "code", ROW_S64, ROW_PLAIN, 0, "si_code" },
	{ "cause", ROW_TEXT, ROW_PLAIN, 0, "the same in words" },
	{ "access", ROW_TEXT, ROW_PLAIN, 0, "read, write, execution" },
	{ "address", ROW_ADDRESS, ROW_PLAIN, 0, "that was accessed" },
	{ "sender", ROW_U64, ROW_PLAIN, 0, "the pid that sent the signal" },
};
static ROW_TABLE(crash_table, "crash",
		 "The state of a thread that a signal killed (waymark trail --json).",
		 crash_columns);

/* The same as rows, and the outer functions'. */
static void crash_rows(struct rows *rows, const struct trail_path *path, struct image *image)
{
	static struct crash crash;
	const struct trail_values *values = path->values;
	struct row_value row[sizeof(crash_columns) / sizeof(*crash_columns)] = { 0 };
	struct row_value *at = row + WORDS_THREAD_VALUES;
	struct arguments of = { .rows = rows, .tid = path->stream->tid };
	int signal = signal_of(path);
	char text[64];

	if (!signal)
		return;
	words_thread_row(row, path);
	*at++ = row_s64((int)value_of(values, TRAIL_VALUE_CODE));
	*at++ = row_text(cause_of(path, signal, text));
	*at++ = row_text(access_of(values));
	*at++ = has_address(values, signal) ? row_address(values->of[TRAIL_VALUE_ADDRESS])
					    : row_null();
	*at = values->has[TRAIL_VALUE_SENDER] ? row_u64(values->of[TRAIL_VALUE_SENDER])
					      : row_null();
	rows_record(rows, &crash_table, row);
	for (uint32_t i = 0; i <= TRAIL_VALUE_RFLAGS; i++) {
		const struct row_value one[] = { row_u64(of.tid), row_text(crash_register(i)),
						 row_address(values->of[i]) };

		if (values->has[i])
			rows_record(rows, &register_table, one);
	}
	crash_init(&crash, values, image);
	for (; of.frame < crash.count; of.frame++)
		put_frame(&of, &crash);
}

/* ---- what came between ---- */

static int is_killed(const struct trail_between *between)
{
	return between->event == TRAIL_END && between->values[0] == TRAIL_KILLED;
}

/*
 * Whether an event belongs to an instruction, to be printed: the one that faulted, or did not run.
 */
static int is_of_instruction(const struct trail_between *between)
{
	return between->has_at && (between->event == TRAIL_SIGNAL || is_killed(between));
}

/* The block directly before an event: 1, or 0 without one. */
static int block_before(const struct trail_path *path, const struct trail_item *item,
			struct trail_item *before)
{
	struct trail_cursor cursor = { .path = path };

	if (!item->index)
		return 0;
	trail_seek(&cursor, item->index - 1);
	return trail_next(&cursor, before) && before->block &&
	       &path->parts[cursor.part].between == item->between;
}

/*
 * The bytes of that instruction: what the block before left of itself; or else out of the module's
 * file.
 */
static size_t code_at(const struct trail_path *path, struct image *image,
		      const struct trail_item *item, uint8_t code[INSN_BYTES_MAX])
{
	const struct trail_between *between = item->between;
	struct trail_item before;

	if (between->left && block_before(path, item, &before) &&
	    between->at - before.block->start < before.block->bytes) {
		const uint8_t *all = trail_table_code(before.table, before.block);
		size_t from = (size_t)(between->at - before.block->start);
		size_t left = before.block->bytes - from;

		if (all) {
			left = left < INSN_BYTES_MAX ? left : INSN_BYTES_MAX;
			memcpy(code, all + from, left);
			return left;
		}
	}
	return image_code(image, between->at, code, INSN_BYTES_MAX);
}

/* The text of that instruction; "" where it is not known. */
static void insn_of(struct trail_show *show, const struct trail_path *path, struct image *image,
		    const struct trail_item *item, char text[INSTRUCTION_TEXT_BYTES])
{
	uint8_t code[INSN_BYTES_MAX];
	size_t bytes = code_at(path, image, item, code);

	if (!bytes ||
	    instruction_text(show->format, image, item->between->at, code, bytes, text) < 0)
		text[0] = '\0';
}

/*
 * If no instruction is there: the instruction that led there. Returns its address and its text; 0
 * where an instruction is there, or the origin is unknown.
 */
static uint64_t led_from(struct trail_show *show, const struct trail_path *path,
			 struct image *image, const struct trail_item *item,
			 char text[INSTRUCTION_TEXT_BYTES])
{
	uint8_t room[TRAIL_BLOCK_BYTES_MAX];
	const struct trail_block *block;
	struct trail_item before;
	const uint8_t *code;

	if (!block_before(path, item, &before) || item->between->left)
		return 0;
	block = before.block;
	if (block->kind == TRAIL_FALL || block->kind == TRAIL_SYSCALL || block->kind == TRAIL_STOP)
		return 0;
	code = words_code(image, before.table, block, room);
	text[0] = '\0';
	if (code &&
	    instruction_text(show->format, image, block->start + block->last, code + block->last,
			     (size_t)block->bytes - block->last, text) < 0)
		text[0] = '\0';
	return block->start + block->last;
}

static void put_from(struct trail_show *show, const struct trail_path *path, struct image *image,
		     const struct trail_item *item)
{
	char text[INSTRUCTION_TEXT_BYTES];
	uint64_t from = led_from(show, path, image, item, text);

	if (!from)
		return;
	out_literal(show->out, ", which was jumped to");
	words_at(show->out, image, from, show->options.is_verbose);
	if (text[0])
		out_literal(show->out, ": ");
	words_put(show->out, text);
}

static void put_text(struct trail_show *show, const struct trail_path *path, struct image *image,
		     const struct trail_item *item)
{
	const struct trail_between *between = item->between;
	char text[INSTRUCTION_TEXT_BYTES];
	struct out *out = show->out;

	words_time(out, trail_ns(show->view.reader, path, item->ticks), show->view.begin_ns,
		   TRAIL_LEFT_WIDTH);
	out_literal(out, "  ");
	words_event(out, image, between);
	if (between->has_at)
		words_at(out, image, between->at, show->options.is_verbose);
	if (is_of_instruction(between)) {
		insn_of(show, path, image, item, text);
		if (text[0])
			out_literal(out, ": ");
		else
			put_from(show, path, image, item);
		words_put(out, text);
	}
	out_char(out, '\n');
	if (is_killed(between))
		crash_text(out, path, image);
}

static const struct row_column columns[] = {
	WORDS_THREAD_COLUMNS,
	{ "block", ROW_U64, ROW_PLAIN, 0, "the number of the next in the trail" },
	{ "time", ROW_S64, ROW_SINCE, 0, "when" },
	WORDS_EVENT_COLUMNS,
	WORDS_PLACE_COLUMNS("at_"),
	{ "instruction", ROW_TEXT, ROW_PLAIN, 0, "that faulted, or was to run" },
	WORDS_PLACE_COLUMNS("from_"),
};
static ROW_TABLE(
	trail_event_table, "trail_event",
	"What came between blocks (waymark trail --json). Where no code is: what jumped there.",
	columns);

static void put_rows(struct trail_show *show, const struct trail_path *path, struct image *image,
		     const struct trail_item *item)
{
	struct row_value row[sizeof(columns) / sizeof(*columns)] = { 0 };
	struct row_value *at = row + WORDS_THREAD_VALUES;
	uint64_t ns = trail_ns(show->view.reader, path, item->ticks), from;
	char text[INSTRUCTION_TEXT_BYTES], led[INSTRUCTION_TEXT_BYTES], name[32];

	words_thread_row(row, path);
	*at++ = row_u64(item->index);
	*at++ = row_s64((int64_t)(ns - show->view.begin_ns));
	words_event_row(at, image, item->between, name);
	at += WORDS_EVENT_VALUES;
	if (item->between->has_at)
		words_place_row(at, image, item->between->at);
	at += WORDS_PLACE_VALUES;
	if (is_of_instruction(item->between)) {
		insn_of(show, path, image, item, text);
		*at++ = row_words(text);
		from = text[0] ? 0 : led_from(show, path, image, item, led);
		if (from)
			words_place_row(at, image, from);
	}
	rows_record(&show->rows, &trail_event_table, row);
	if (is_killed(item->between))
		crash_rows(&show->rows, path, image);
}

void trail_put_event(struct trail_show *show, const struct trail_path *path, struct image *image,
		     const struct trail_item *item)
{
	(show->options.json ? put_rows : put_text)(show, path, image, item);
}
