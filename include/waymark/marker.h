/* SPDX-License-Identifier: MIT */
/*
 * Markers: named points in a program that cost nothing until a tool arms them.
 *
 *	WAYMARK(net, rx, len, peer);                  an event with two fields
 *	WAYMARK(net, rx, WM_FIELD(size, p->n), WM_BYTES(p->buf, p->n));
 *	WAYMARK_IF(net, audit) { check_tables(); }    code that runs while armed
 *	WAYMARK_BEGIN(db, query, sql); ... WAYMARK_END(db, query, rows);
 *	WAYMARK_SCOPE(db, commit, id);                ends where the block ends
 *	WAYMARK_SDT(db, busy, retries);               perf, gdb, bpftrace see it too
 *	WAYMARK_LEVEL(info, db, open, path);          with a log level, to record by
 *
 * This header links nothing and starts nothing. A marker is named SUBSYSTEM:EVENT; both are plain
 * identifiers, taken as written even where a macro has the same name. Each takes up to 16 fields:
 * signed and unsigned integers of 8 to 64 bits, bool, float, double (long double is narrowed to
 * it), enumerations, pointers, strings (char *; NULL is recorded as NULL), and
 *
 *	WM_BYTES(p, n)            n bytes
 *	WM_ARRAY(p, n)            n numbers, of the type that p points to
 *	WM_HEX(x)                 an integer, or a WM_ARRAY of integers, shown in base 16
 *	WM_NET(x)                 an integer that is in network byte order
 *	WM_ENUM(x, A, B = 4, C)   an integer or an enumeration with the names of its values
 *	WM_FIELD(name, x)         a field with that name
 *
 * In C++ also strings, string views, vectors and arrays of numbers, and atomics, as they are, and
 * durations and time points, as nanoseconds. Strings and runs are cut past WM_RUN_BYTES_MAX, and
 * flagged. A field is called what its argument's text says (what such a macro wraps, the same), or
 * as WM_FIELD names it. What can't be a field, an array without WM_ARRAY for one, is an error in
 * words.
 *
 * Arguments are evaluated once, and only while the marker is armed, except that WAYMARK_SDT always
 * evaluates them. A string or byte run must be readable for as long as the statement runs.
 * Any thread and any signal handler may pass a marker, in inlined and in recursive code.
 *
 * C from C89 with GNU extensions on, C++ from C++11. In a constexpr function: from C++20, behind
 * if (!__builtin_is_constant_evaluated()); before, in another function that is called so.
 * WAYMARK_SDT needs AT&T syntax (not -masm=intel). gcc -mcmodel=large is refused.
 *
 * -DWAYMARK_DISABLE   every macro expands to nothing; arguments are type-checked, never evaluated.
 * -DWAYMARK_PORTABLE  a site is a test of a flag in data instead of an instruction that is patched:
 *                     for programs whose text can never be written.
 *
 * A program includes only this header. The headers in marker/ implement it: each.h for arguments,
 * field.h for values, site.h for what a site compiles to, sdt.h and note.h for WAYMARK_SDT.
 * abi/site.h in the sources describes the sections' contents.
 */
#ifndef WAYMARK_MARKER_H
#define WAYMARK_MARKER_H

/* GNU extensions are used throughout: asm goto, local labels, one-argument variadics. */
#pragma GCC system_header

#if defined(__cplusplus) && __cplusplus < 201103L
#error "waymark: marker.h needs C++11 or later: -std=c++11"
#endif

#include <waymark/marker/field.h>

#ifndef __x86_64__
#if !defined(WAYMARK_DISABLE)
#define WAYMARK_DISABLE 1 /* no site encoding for this processor: markers compile to nothing */
#endif
#endif

#if defined(WAYMARK_DISABLE)

#define WAYMARK(subsys, event, ...) WM__CHECK(_, ##__VA_ARGS__)
#define WAYMARK_IF(subsys, event) if (0)
#define WAYMARK_BEGIN(subsys, event, ...) WM__CHECK(_, ##__VA_ARGS__)
#define WAYMARK_END(subsys, event, ...) WM__CHECK(_, ##__VA_ARGS__)
#define WAYMARK_SCOPE(subsys, event, ...)                                                          \
	int WM__GLUE(wm__scope_, __COUNTER__) __attribute__((unused)) = __extension__({            \
		WM__CHECK(_, ##__VA_ARGS__);                                                       \
		0;                                                                                 \
	})
#define WAYMARK_SDT(subsys, event, ...) WM__CHECK(_, ##__VA_ARGS__)
#define WAYMARK_LEVEL(level, subsys, event, ...) WM__CHECK(_, ##__VA_ARGS__)
#define WAYMARK_BEGIN_LEVEL(level, subsys, event, ...) WM__CHECK(_, ##__VA_ARGS__)
#define WAYMARK_END_LEVEL(level, subsys, event, ...) WM__CHECK(_, ##__VA_ARGS__)
#define WAYMARK_SCOPE_LEVEL(level, subsys, event, ...) WAYMARK_SCOPE(subsys, event, ##__VA_ARGS__)

#else

#include <waymark/marker/sdt.h>

/* Record an event with the given fields. A statement. */
#define WAYMARK(subsys, event, ...)                                                                \
	WM__MARK("m", "", #subsys, #event, "" #__VA_ARGS__, ##__VA_ARGS__)

/*
 * Run the block that follows while armed; each pass is also recorded, as an event without fields.
 * The block is compiled out of line.
 */
#define WAYMARK_IF(subsys, event) if (WM__ARMED("i", #subsys, #event))

/* A span, within one thread: from BEGIN to the END of the same name. Spans nest. */
#define WAYMARK_BEGIN(subsys, event, ...)                                                          \
	WM__MARK("b", "", #subsys, #event, "" #__VA_ARGS__, ##__VA_ARGS__)
#define WAYMARK_END(subsys, event, ...)                                                            \
	WM__MARK("e", "", #subsys, #event, "" #__VA_ARGS__, ##__VA_ARGS__)

/*
 * A span from here to the end of the enclosing block, however it is left (return, break, goto, a
 * C++ exception; in C, an exception or cancellation only with -fexceptions; never longjmp).
 * A declaration: it can't be the sole body of an if or a loop. The end has no fields, and is
 * recorded only if the beginning was.
 */
#define WAYMARK_SCOPE(subsys, event, ...)                                                          \
	WM__SCOPE("", #subsys, #event, "" #__VA_ARGS__, ##__VA_ARGS__)

/*
 * The same with a log level, one of LTTng's words: from emerg, the most urgent, to debug, as listed
 * below. A tool records by it: if=level<=info. Both ends of a span take the same.
 */
#define WAYMARK_LEVEL(level, subsys, event, ...)                                                   \
	WM__MARK("m", WM__LEVEL_##level, #subsys, #event, "" #__VA_ARGS__, ##__VA_ARGS__)
#define WAYMARK_BEGIN_LEVEL(level, subsys, event, ...)                                             \
	WM__MARK("b", WM__LEVEL_##level, #subsys, #event, "" #__VA_ARGS__, ##__VA_ARGS__)
#define WAYMARK_END_LEVEL(level, subsys, event, ...)                                               \
	WM__MARK("e", WM__LEVEL_##level, #subsys, #event, "" #__VA_ARGS__, ##__VA_ARGS__)
#define WAYMARK_SCOPE_LEVEL(level, subsys, event, ...)                                             \
	WM__SCOPE(WM__LEVEL_##level, #subsys, #event, "" #__VA_ARGS__, ##__VA_ARGS__)

#define WM__LEVEL_emerg " emerg"
#define WM__LEVEL_alert " alert"
#define WM__LEVEL_crit " crit"
#define WM__LEVEL_err " err"
#define WM__LEVEL_warning " warning"
#define WM__LEVEL_notice " notice"
#define WM__LEVEL_info " info"
#define WM__LEVEL_debug_system " debug_system"
#define WM__LEVEL_debug_program " debug_program"
#define WM__LEVEL_debug_process " debug_process"
#define WM__LEVEL_debug_module " debug_module"
#define WM__LEVEL_debug_unit " debug_unit"
#define WM__LEVEL_debug_function " debug_function"
#define WM__LEVEL_debug_line " debug_line"
#define WM__LEVEL_debug " debug"

/*
 * As WAYMARK, and a standard .note.stapsdt beside it, so that perf, bpftrace, gdb and SystemTap
 * see the point SUBSYSTEM:EVENT without Waymark. At most 12 fields, no WM_BYTES. Float and double
 * fields reach those tools as their bits.
 */
#define WAYMARK_SDT(subsys, event, ...) WM__SDT(#subsys, #event, "" #__VA_ARGS__, ##__VA_ARGS__)

#endif

/* Disabled: the fields' types are checked and their variables count as used; nothing is left. */
#define WM__CHECK(a, ...)                                                                          \
	do {                                                                                       \
		WM__CHECK_FIELDS(_, ##__VA_ARGS__)                                                 \
		if (0) {                                                                           \
			WM__EACH(WM__USE, _, ##__VA_ARGS__)                                        \
		}                                                                                  \
	} while (0)
#define WM__USE(a, i, e) (void)(e);

#endif
