/* SPDX-License-Identifier: MIT */
#include "code/demangle.h"

#include <demangle.h>
#include <setjmp.h>
#include <string.h>

struct output {
	char *text;
	size_t bytes, used;
	jmp_buf full;
};

/*
 * A short hostile name can stand for gigabytes: when the room is full, we leave. The callback variants
 * of the demanglers keep all they have on the stack, so nothing is lost by that.
 */
static void take(const char *part, size_t bytes, void *data)
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
	const int options = DMGL_ANSI | (with_parameters ? DMGL_PARAMS : 0);
	struct output output = { .text = text, .bytes = bytes };

	if (!bytes)
		return 0;
	*text = 0;
	if (name[0] != '_' || (name[1] != 'Z' && name[1] != 'R'))
		return 0;
	if (setjmp(output.full))
		return 0;
	/* Rust's older names are C++'s with a hash behind. */
	if (rust_demangle_callback(name, options, take, &output) && *text)
		return 1;
	output.used = 0;
	*text = 0;
	return cplus_demangle_v3_callback(name, options, take, &output) && *text;
}
