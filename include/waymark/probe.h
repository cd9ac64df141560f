/* SPDX-License-Identifier: MIT */
/*
 * A program's own handlers on its markers. Link with -lwaymark-agent.
 *
 *	WM_PROBE(net, rx, int, const char *);          says what fields the marker net:rx has
 *
 *	static void on_rx(void *data, int len, const char *peer) { ... }
 *
 *	struct wm_probe *probe;
 *	int error = wm_probe_add_net_rx(&probe, on_rx, &my_data);
 *	...
 *	wm_probe_remove(probe);
 *
 * A handler whose parameters differ from those declared does not compile, except one that is
 * declared without any, as (), before C23. A declaration that differs from the marker is refused
 * with -WM_E_FIELD_TYPES. A marker that no module has yet makes it 1: the handler waits, and
 * wm_probe_status() reports what became of it. A marker may have any number of handlers; adding the
 * first arms it.
 *
 * A handler runs in the thread that passes the marker (in its signal handler if the marker is in
 * one), in the middle of a function whose compiler expects no call there. So do only what a signal
 * handler may do, and don't longjmp or throw out of it. The function around the marker sees the
 * handler's stores as it would see another thread's (use atomics or volatile). Vector registers are
 * preserved for it. A marker that a handler passes itself is recorded, but calls no handler that is
 * already running in this thread.
 *
 * Threads, cancellation and fork. Any thread may call these functions. One thread at a time uses an
 * object; different objects are independent. A signal handler must not call them. No call is a
 * cancellation point: pthread_cancel(3) takes effect after it. An object belongs to the process
 * that made it. In a forked child of that process, only the function that closes it works; it
 * leaves the parent's object as it is, and the others return -ECHILD. A function with another rule
 * says so.
 *
 * Handlers are such an exception: a forked child has its own, and all functions work there.
 */
#ifndef WAYMARK_PROBE_H
#define WAYMARK_PROBE_H

#pragma GCC system_header /* one-argument variadics, as in marker.h */

#include <waymark/error.h>
#include <waymark/marker.h>

#ifdef __cplusplus
extern "C" {
#endif

struct wm_probe;

typedef void (*wm_probe_fn)(void);
typedef void (*wm_probe_call)(wm_probe_fn fn, void *data, const unsigned char *payload);

/*
 * What WM_PROBE's functions call. `name` is SUBSYSTEM:EVENT, `kind` 'm' (WAYMARK, WAYMARK_SDT),
 * 'i', 'b' or 'e'; `types` are WM_TYPE_*, ended by 0 if fewer than 16. `call` unpacks the fields
 * and calls fn.
 *
 * This function sets *probe before the handler can run; wm_probe_remove() releases it. Not in a
 * probe's handler. Returns:
 *
 *	0	the handler is called from now on
 *	1	no module has the marker: the handler is there as soon as one brings it with these
 *		types. One with other types does not call it: ask wm_probe_status() then
 *
 * or, with *probe NULL, -EINVAL for a NULL pointer or an invalid name, -WM_E_FIELD_TYPES,
 * -WM_E_NO_TEXT_WRITE, -WM_E_SITE_CHANGED or -errno.
 */
int wm_probe_add(struct wm_probe **probe, const char *name, char kind,
		 const unsigned char types[16], wm_probe_call call, wm_probe_fn fn, void *data);

/*
 * Where a handler is called: the number of places in the modules that are loaded, 0 while no module
 * has the marker. -WM_E_FIELD_TYPES: a module has the marker with other types, so its places do not
 * call the handler, while other modules' may. Otherwise what refused the marker's places
 * (-WM_E_SITE_CHANGED...), or -EINVAL for NULL, or -errno. A module that was loaded a moment ago
 * may not count yet. The probe's handler may call it.
 */
int wm_probe_status(struct wm_probe *probe);

/*
 * Take a handler away. When this returns 0 the handler is not running in any thread and never will
 * again: its code and data may be freed. From inside a handler the own thread is not waited for. A
 * handler that doesn't return within ten seconds makes it -ETIMEDOUT: the handler will not be
 * called any more, but may still be running. NULL is allowed.
 */
int wm_probe_remove(struct wm_probe *probe);

#ifdef __cplusplus
}
#endif

/*
 * Declare a marker's fields; defines wm_probe_add_SUBSYS_EVENT(probe, handler, data). At file
 * scope.
 */
#define WM_PROBE(subsys, event, ...) WM__PROBE('m', add, subsys, event, ##__VA_ARGS__)
/* The same for a span's begin and end: wm_probe_begin_SUBSYS_EVENT() and wm_probe_end_...(). */
#define WM_PROBE_BEGIN(subsys, event, ...) WM__PROBE('b', begin, subsys, event, ##__VA_ARGS__)
#define WM_PROBE_END(subsys, event, ...) WM__PROBE('e', end, subsys, event, ##__VA_ARGS__)

#define WM__PROBE_PARAMETER(a, i, type) , type
#define WM__PROBE_FIELD(a, i, type) type wm__v##i;
#define WM__PROBE_READ(a, i, type)                                                                 \
	__builtin_memcpy(&wm__v##i, wm__from, sizeof wm__v##i);                                    \
	wm__from += sizeof wm__v##i;
#define WM__PROBE_VALUE(a, i, type) , wm__v##i
#define WM__PROBE_TYPE(a, i, type) WM__TYPE(*(type *)0),
#define WM__PROBE_CHECK(a, i, type)                                                                \
	WM__ASSERT(sizeof(type) == WM__BYTES_OF(WM__TYPE(*(type *)0)),                             \
		   "waymark: this type can't be a field of a probe");

/* In C an argument of another pointer type is a warning, and an error where it is a union's. */
#ifdef __cplusplus
#define WM__PROBE_ARG(type) typedef type *type##_arg
#define WM__PROBE_FN(arg) arg
#else
#define WM__PROBE_ARG(type)                                                                        \
	typedef union {                                                                            \
		type *fn;                                                                          \
	} type##_arg __attribute__((transparent_union))
#define WM__PROBE_FN(arg) arg.fn
#endif

#define WM__PROBE(kind, verb, subsys, event, ...)                                                  \
	WM__EACH(WM__PROBE_CHECK, _, ##__VA_ARGS__)                                                \
	typedef void wm_probe_##verb##_##subsys##_##event##_fn(                                    \
		void *data WM__EACH(WM__PROBE_PARAMETER, _, ##__VA_ARGS__));                       \
	WM__PROBE_ARG(wm_probe_##verb##_##subsys##_##event##_fn);                                  \
	static inline __attribute__((unused)) void wm_probe_##verb##_##subsys##_##event##_call(    \
		wm_probe_fn wm__fn, void *wm__data, const unsigned char *wm__from)                 \
	{                                                                                          \
		WM__EACH(WM__PROBE_FIELD, _, ##__VA_ARGS__)                                        \
		WM__EACH(WM__PROBE_READ, _, ##__VA_ARGS__)                                         \
		(void)wm__from;                                                                    \
		((wm_probe_##verb##_##subsys##_##event##_fn *)wm__fn)(                             \
			wm__data WM__EACH(WM__PROBE_VALUE, _, ##__VA_ARGS__));                     \
	}                                                                                          \
	static inline __attribute__((unused)) int wm_probe_##verb##_##subsys##_##event(            \
		struct wm_probe **probe, wm_probe_##verb##_##subsys##_##event##_fn_arg fn,         \
		void *data)                                                                        \
	{                                                                                          \
		static const unsigned char types[17] = { WM__EACH(WM__PROBE_TYPE, _,               \
								  ##__VA_ARGS__) 0 };              \
                                                                                                   \
		return wm_probe_add(probe, #subsys ":" #event, kind, types,                        \
				    wm_probe_##verb##_##subsys##_##event##_call,                   \
				    (wm_probe_fn)WM__PROBE_FN(fn), data);                          \
	}                                                                                          \
	typedef void wm_probe_##verb##_##subsys##_##event##_fn(                                    \
		void *data WM__EACH(WM__PROBE_PARAMETER, _, ##__VA_ARGS__))

#endif
