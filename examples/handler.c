/* SPDX-License-Identifier: MIT */
/*
 * Handlers for programs that know nothing of them: big blocks of memory, and opens that failed.
 *
 *	cc -shared -fPIC -O2 -o handler.so handler.c
 *	waymark record --handler ./handler.so -- PROGRAM
 */
#include <stddef.h>
#include <waymark/handler.h>

WM_FUNC_PROBE(libc, malloc, size_t)
{
	static size_t most;

	if (arg1 < 1 << 20)
		return WM_REJECT;
	if (arg1 > most) {
		most = arg1;
		WAYMARK(mine, largest, most); /* a value of the handler's own */
	}
	return WM_RECORD;
}

WM_RETURN_PROBE(libc, open, int, const char *, int)
{
	return result < 0 ? WM_RECORD : WM_REJECT;
}
