/* SPDX-License-Identifier: MIT */
#include "base/detail.h"

#include <stdarg.h>
#include <stdio.h>

int detail_set(struct detail detail, int error, const char *format, ...)
{
	va_list args;

	if (detail.bytes) {
		va_start(args, format);
		vsnprintf(detail.text, detail.bytes, format, args);
		va_end(args);
	}
	return error;
}
