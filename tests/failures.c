/* SPDX-License-Identifier: MIT */
#include "failures.h"

#include <stdarg.h>
#include <stdio.h>

int failures;

void wrong(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	putchar('\n');
	failures++;
}

void equal(const char *what, uint64_t got, uint64_t wanted)
{
	if (got != wanted)
		wrong("%s: %llu, expected %llu", what, (unsigned long long)got,
		      (unsigned long long)wanted);
}
