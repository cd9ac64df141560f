/* SPDX-License-Identifier: MIT */
#include "cli/trail_crash.h"

#include "cli/trail_event.h"
#include "cli/trail_words.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define INDENT (TRAIL_LEFT_WIDTH + 2)
#define REGISTERS_A_LINE 4
#define REGISTER_WIDTH 20
#define ERROR_IS_WRITE 2u
#define ERROR_IS_FETCH 16u

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

/* ---- text ---- */

static void put(struct out *out, const char *text)
{
	out_escaped(out, text, strlen(text));
}

static void indent(struct out *out)
{
	for (unsigned int i = 0; i < INDENT; i++)
		out_char(out, ' ');
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
	put(arguments->out, name);
	out_char(arguments->out, '=');
	put(arguments->out, text);
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
	put(out, before);
	code_arguments(frame, put_argument, &arguments);
}

static void put_fault(struct out *out, const struct trail_path *path, int signal)
{
	const char *access = access_of(path->values);
	char text[64];

	indent(out);
	if (has_address(path->values, signal)) {
		put(out, access ? access : "access");
		snprintf(text, sizeof(text), " of address 0x%" PRIx64 ": ",
			 path->values->of[TRAIL_VALUE_ADDRESS]);
		put(out, text);
	}
	put(out, cause_of(path, signal, text));
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
			put(out, text);
			out_char(out, '\n');
		}
	}
}

void trail_crash_text(struct out *out, const struct trail_path *path, struct image *image)
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

/* ---- rows ---- */

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

void trail_crash_rows(struct rows *rows, const struct trail_path *path, struct image *image)
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
