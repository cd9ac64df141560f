/* SPDX-License-Identifier: MIT */
/*
 * Handlers from outside: a shared object whose functions run at markers and probes of a program
 * that knows nothing of them. Needs this header alone:
 *
 *	#include <waymark/handler.h>
 *
 *	WM_FUNC_PROBE(libc, malloc, size_t)
 *	{
 *		return arg1 < 1 << 20 ? WM_REJECT : WM_RECORD;
 *	}
 *
 *	cc -shared -fPIC -O2 -o mine.so mine.c
 *	waymark record --handler ./mine.so -p PID
 *
 * The arguments are arg1, arg2 and so on, of the types that the macro names. A handler's own values
 * are recorded by markers, WAYMARK(mine, big, arg1): --handler records those of the object, too.
 * waymark-handler(3) says what a handler may do.
 */
#ifndef WAYMARK_HANDLER_H
#define WAYMARK_HANDLER_H

#pragma GCC system_header /* one-argument variadics, as in marker.h */

#include <waymark/marker.h>

/* What a handler returns. */
#define WM_RECORD 0
#define WM_REJECT 1  /* the hit is not recorded, and not added up */
#define WM_CALL 0    /* of WM_FUNC_REPLACE: the function runs, and nothing is recorded */
#define WM_REPLACE 2 /* it does not run, and its caller gets *result */

/* At a marker; at the begin, at the end of a span. */
#define WM_MARKER_PROBE(subsys, event, ...)                                                        \
	WM__HANDLER(m_##subsys##_##event, 'm', "", #subsys ":" #event, ##__VA_ARGS__)
#define WM_BEGIN_PROBE(subsys, event, ...)                                                         \
	WM__HANDLER(b_##subsys##_##event, 'b', "", #subsys ":" #event, ##__VA_ARGS__)
#define WM_END_PROBE(subsys, event, ...)                                                           \
	WM__HANDLER(e_##subsys##_##event, 'e', "", #subsys ":" #event, ##__VA_ARGS__)

/* At a USDT probe, as the program's sys/sdt.h names it. */
#define WM_USDT_PROBE(provider, name, ...)                                                         \
	WM__HANDLER(u_##provider##_##name, 'u', "", #provider ":" #name, ##__VA_ARGS__)

/* At the entry of a function of `module`: libc, or `any`. The types may end before the last. */
#define WM_FUNC_PROBE(module, function, ...)                                                       \
	WM__HANDLER(f_##module##_##function, 'f', #module, #function, ##__VA_ARGS__)

/*
 * At a function's return: arg1 and so on are those of the entry, texts as they were then;
 * `result` is of the first type; `duration` has nanoseconds.
 */
#define WM_RETURN_PROBE(module, function, type, ...)                                               \
	WM__HANDLER_CHECK(_, _, type)                                                              \
	WM__HANDLER_DEFINE(r_##module##_##function, 'r', #module, #function,                       \
			   (WM__TYPE(*(type *)0), WM_TYPE_U64),                                    \
			   (type result WM__UNUSED, unsigned long duration WM__UNUSED),            \
			   (type wm__result; unsigned long wm__duration;),                         \
			   (WM__HANDLER_TAKE(wm__result) WM__HANDLER_TAKE(wm__duration)),          \
			   (wm__result, wm__duration), ##__VA_ARGS__)

/*
 * In place of a function, before it runs: WM_REPLACE gives its caller *result, which is of the
 * first type and 0 at first, and errno as the handler left it. A replaced call is one event,
 * FUNCTION:replaced. WM_CALL has the function run. The handler may call the function itself.
 */
#define WM_FUNC_REPLACE(module, function, type, ...)                                               \
	WM__HANDLER_CHECK(_, _, type)                                                              \
	WM__HANDLER_DEFINE(x_##module##_##function, 'x', #module, #function,                       \
			   (WM__TYPE(*(type *)0), WM_TYPE_U64), (type * result WM__UNUSED), (),    \
			   (), ((type *)wm__to), ##__VA_ARGS__)

/* ---- From here on: how it is done. ---- */

#define WM__HANDLER_MAGIC 0x6c64486du /* "mHdl" */
#define WM__HANDLER_VERSION 1

/* One in the object's section waymark_handlers. The outside reads all but `call` from the file. */
struct wm_handler {
	unsigned int magic;
	unsigned short version;
	unsigned char kind; /* m, b, e, u, f, r, x */
	unsigned char reserved;
	unsigned char types[17]; /* WM_TYPE_*, then 0; of r and x the result's and U64 are last */
	char module[64];	 /* of f, r, x */
	char name[159];
	int (*call)(const unsigned char *payload, void *result); /* NULL: of any but x */
};

#if defined(__has_attribute)
#if __has_attribute(retain)
#define WM__HANDLER_RETAIN , retain
#endif
#endif
#ifndef WM__HANDLER_RETAIN
#define WM__HANDLER_RETAIN
#endif

#define WM__UNUSED __attribute__((unused))
#define WM__ARG(i) WM__GLUE(WM__ARG, i)
#define WM__ARG0 arg1
#define WM__ARG1 arg2
#define WM__ARG2 arg3
#define WM__ARG3 arg4
#define WM__ARG4 arg5
#define WM__ARG5 arg6
#define WM__ARG6 arg7
#define WM__ARG7 arg8
#define WM__ARG8 arg9
#define WM__ARG9 arg10
#define WM__ARG10 arg11
#define WM__ARG11 arg12
#define WM__ARG12 arg13
#define WM__ARG13 arg14
#define WM__ARG14 arg15
#define WM__ARG15 arg16

/* A text that the agent could not read: the handler gets NULL. */
#define WM__HANDLER_UNREADABLE 1
static inline __attribute__((unused)) int wm__handler_lacks(const void *text)
{
	unsigned long word;

	__builtin_memcpy(&word, text, sizeof word);
	return word == WM__HANDLER_UNREADABLE;
}

#define WM__HANDLER_CHECK(a, i, type)                                                              \
	WM__ASSERT(sizeof(type) == WM__BYTES_OF(WM__TYPE(*(type *)0)),                             \
		   "waymark: this type can't be an argument of a handler");
#define WM__HANDLER_PARAMETER(a, i, type) , type WM__ARG(i) WM__UNUSED
#define WM__HANDLER_VALUE(a, i, type) type wm__v##i;
#define WM__HANDLER_TAKE(value)                                                                    \
	__builtin_memcpy(&value, wm__from, sizeof value);                                          \
	wm__from += sizeof value;
#define WM__HANDLER_READ(a, i, type)                                                               \
	WM__HANDLER_TAKE(wm__v##i)                                                                 \
	if (WM__TYPE(*(type *)0) == WM_TYPE_STR && wm__handler_lacks(&wm__v##i))                   \
		__builtin_memset(&wm__v##i, 0, sizeof wm__v##i);
#define WM__HANDLER_PASS(a, i, type) , wm__v##i
#define WM__HANDLER_TYPE(a, i, type) (unsigned char)WM__TYPE(*(type *)0),
#define WM__HANDLER_OPEN(...) __VA_ARGS__

#define WM__HANDLER(id, kind, module, name, ...)                                                   \
	WM__HANDLER_DEFINE(id, kind, module, name, (0), (int wm__no WM__UNUSED), (), (), (0),      \
			   ##__VA_ARGS__)

/* The head of a handler's function, which its code follows. A return's types are in (). */
#define WM__HANDLER_DEFINE(id, kind, module, name, types, parameters, values, reads, passed, ...)  \
	WM__EACH(WM__HANDLER_CHECK, _, ##__VA_ARGS__)                                              \
	static int wm_on_##id(                                                                     \
		WM__HANDLER_OPEN parameters WM__EACH(WM__HANDLER_PARAMETER, _, ##__VA_ARGS__));    \
	static int wm__call_##id(const unsigned char *wm__from, void *wm__to)                      \
	{                                                                                          \
		WM__EACH(WM__HANDLER_VALUE, _, ##__VA_ARGS__)                                      \
		WM__HANDLER_OPEN values WM__EACH(WM__HANDLER_READ, _, ##__VA_ARGS__)               \
			WM__HANDLER_OPEN                                                           \
			reads(void) wm__from;                                                      \
		(void)wm__to;                                                                      \
		return wm_on_##id(                                                                 \
			WM__HANDLER_OPEN passed WM__EACH(WM__HANDLER_PASS, _, ##__VA_ARGS__));     \
	}                                                                                          \
	WM__ASSERT(sizeof(module) <= 64 && sizeof(name) <= 159,                                    \
		   "waymark: this name is too long for a handler");                                \
	static struct wm_handler wm__handler_##id __attribute__((                                  \
		section("waymark_handlers"), used, aligned(8) WM__HANDLER_RETAIN)) = {             \
		WM__HANDLER_MAGIC,                                                                 \
		WM__HANDLER_VERSION,                                                               \
		kind,                                                                              \
		0,                                                                                 \
		{ WM__EACH(WM__HANDLER_TYPE, _, ##__VA_ARGS__) WM__HANDLER_OPEN types },           \
		module,                                                                            \
		name,                                                                              \
		wm__call_##id                                                                      \
	};                                                                                         \
	static int wm_on_##id(                                                                     \
		WM__HANDLER_OPEN parameters WM__EACH(WM__HANDLER_PARAMETER, _, ##__VA_ARGS__))

#endif
