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
	struct json *json;
	uint32_t count, known;
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

/* ---- JSON ---- */

static int json_argument(const char *name, const struct watch_type *type, const void *value,
			 void *data)
{
	struct json *json = ((struct arguments *)data)->json;
	char text[WATCH_TEXT_MAX + 1];

	json_open(json, NULL, '{');
	json_string(json, "name", name);
	if (value) {
		value_text(type, value, text);
		json_string(json, "type", expression_type_name(type));
		json_string(json, "value", text);
	} else {
		json_null(json, "type");
		json_null(json, "value");
	}
	json_close(json, '}');
	return 0;
}

static void json_frames(struct json *json, struct crash *crash)
{
	json_open(json, "frames", '[');
	for (uint32_t i = 0; i < crash->count; i++) {
		struct arguments arguments = { .json = json };

		json_open(json, NULL, '{');
		words_json_place(json, "at", crash->image,
				 code_frame_at(&crash->frames[i].registers));
		json_open(json, "arguments", '[');
		code_arguments(&crash->frames[i], json_argument, &arguments);
		json_close(json, ']');
		json_close(json, '}');
	}
	json_close(json, ']');
}

void trail_crash_json(struct json *json, const struct trail_path *path, struct image *image)
{
	static struct crash crash;
	const struct trail_values *values = path->values;
	int signal = signal_of(path);
	char text[64];

	if (!signal) {
		json_null(json, "crash");
		return;
	}
	json_open(json, "crash", '{');
	json_decimal(json, "code", (double)(int)value_of(values, TRAIL_VALUE_CODE), 0);
	json_string(json, "cause", cause_of(path, signal, text));
	json_words(json, "access", access_of(values));
	if (has_address(values, signal))
		words_json_address(json, "address", values->of[TRAIL_VALUE_ADDRESS]);
	else
		json_null(json, "address");
	if (values->has[TRAIL_VALUE_SENDER])
		json_number(json, "sender", values->of[TRAIL_VALUE_SENDER]);
	else
		json_null(json, "sender");
	json_open(json, "registers", '{');
	for (uint32_t i = 0; i <= TRAIL_VALUE_RFLAGS; i++)
		if (values->has[i])
			words_json_address(json, crash_register(i), values->of[i]);
	json_close(json, '}');
	crash_init(&crash, values, image);
	json_frames(json, &crash);
	json_close(json, '}');
}
