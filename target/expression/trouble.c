/* SPDX-License-Identifier: MIT */
#include "target/expression/trouble.h"

#include <stdarg.h>
#include <stdio.h>

int expression_trouble_set(struct watch_trouble *trouble, int error, size_t at, size_t bytes,
			   const char *format, ...)
{
	va_list args;

	if (!trouble)
		return error;
	trouble->error = error;
	trouble->at = at;
	trouble->bytes = bytes;
	va_start(args, format);
	vsnprintf(trouble->detail, sizeof(trouble->detail), format, args);
	va_end(args);
	return error;
}
