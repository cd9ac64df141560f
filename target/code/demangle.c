/* SPDX-License-Identifier: MIT */
#include "target/code/demangle.h"

#include <ctype.h>
#include <demangle.h>
#include <setjmp.h>
#include <string.h>

#define WRITTEN_MAX 4096

struct output {
	char *text;
	size_t bytes, used;
	int with_parameters;
	jmp_buf full;
};

/*
 * A short hostile name can expand to gigabytes: when the room is full, we leave. The callback
 * variants of the demanglers keep all they have on the stack, so leaving leaks nothing.
 */
static void part_take(const char *part, size_t bytes, void *data)
{
	struct output *output = data;

	if (bytes >= output->bytes - output->used)
		longjmp(output->full, 1);
	if (bytes) /* an empty part may be NULL */
		memcpy(output->text + output->used, part, bytes);
	output->used += bytes;
	output->text[output->used] = 0;
}

int code_demangle(const char *name, int with_parameters, char *text, size_t bytes)
{
	const int options = DMGL_ANSI | (with_parameters ? DMGL_PARAMS : 0) |
			    (with_parameters == CODE_WITHOUT_RETURN ? DMGL_RET_DROP : 0);
	struct output output = { .text = text, .bytes = bytes };

	if (!bytes)
		return 0;
	*text = 0;
	if (name[0] != '_' || (name[1] != 'Z' && name[1] != 'R'))
		return 0;
	if (setjmp(output.full))
		return 0;
	/* Rust's older names are C++'s with a hash behind. */
	if (rust_demangle_callback(name, options, part_take, &output) && *text)
		return 1;
	output.used = 0;
	*text = 0;
	return cplus_demangle_v3_callback(name, options, part_take, &output) && *text;
}

/* ---- for people ---- */

/* Where the suffixes of the compiler begin, .isra.0.cold; the end of a name that has none. */
static const char *suffixes_of(const char *name)
{
	const char *at = name + strlen(name);

	/* the dots in Rust's older names have a dollar or an E behind them */
	while (at > name && (islower((unsigned char)at[-1]) || isdigit((unsigned char)at[-1]) ||
			     at[-1] == '_' || at[-1] == '.'))
		at--;
	return at + strcspn(at, ".");
}

/* One suffix with its numbers: .cold, .isra.0 */
static size_t suffix_bytes(const char *suffix)
{
	size_t bytes = 1 + strcspn(suffix + 1, ".");

	while (suffix[bytes] == '.' && isdigit((unsigned char)suffix[bytes + 1]))
		bytes += 1 + strcspn(suffix + bytes + 1, ".");
	return bytes;
}

static void add(struct output *output, const char *part, size_t bytes)
{
	for (size_t i = 0; i < bytes && output->used < output->bytes; i++)
		output->text[output->used++] = iscntrl((unsigned char)part[i]) ? '_' : part[i];
}

/* Add the demangled name: 1; 0 if it cannot be demangled. */
static int add_written(struct output *output, const char *name)
{
	char plain[WRITTEN_MAX], written[WRITTEN_MAX];
	const char *suffix = suffixes_of(name);
	size_t bytes = (size_t)(suffix - name);
	int is_short = 0;

	if (bytes >= sizeof(plain))
		return 0;
	memcpy(plain, name, bytes);
	plain[bytes] = 0;
	if (!code_demangle(plain, output->with_parameters, written, sizeof(written))) {
		is_short = output->with_parameters;
		if (!is_short || !code_demangle(plain, 0, written, sizeof(written)))
			return 0;
	}
	add(output, written, strlen(written));
	add(output, "(...)", is_short ? 5 : 0);
	for (; *suffix; suffix += suffix_bytes(suffix)) {
		add(output, " [clone ", 8);
		add(output, suffix, suffix_bytes(suffix));
		add(output, "]", 1);
	}
	return 1;
}

void code_name_text(const char *name, int with_parameters, char *text, size_t bytes)
{
	struct output output = { .text = text, .bytes = bytes, .with_parameters = with_parameters };

	if (!add_written(&output, name))
		add(&output, name, strlen(name));
	if (output.used < bytes) {
		text[output.used] = 0;
		return;
	}
	bytes -= sizeof("...");
	while (bytes && ((unsigned char)text[bytes] & 0xc0) == 0x80) /* within a character */
		bytes--;
	memcpy(text + bytes, "...", sizeof("..."));
}
