/* SPDX-License-Identifier: MIT */
/*
 * Lists: what can be recorded in a process or in a file. Link with -lwaymark.
 *
 *	wm_list_file("/usr/bin/psql", "usdt:*:*", print_place, NULL);
 *
 * The functions read files and /proc. Nothing runs in the process, and nothing in it changes.
 *
 * Threads, cancellation and fork. Any thread may call these functions. One thread at a time uses an
 * object; different objects are independent. A signal handler must not call them. No call is a
 * cancellation point: pthread_cancel(3) takes effect after it. An object belongs to the process
 * that made it. In a forked child of that process, only the function that closes it works; it
 * leaves the parent's object as it is, and the others return -ECHILD. A function with another rule
 * says so.
 *
 * Lists have no object, so several threads may call these functions at a time.
 *
 * Files and processes may be hostile: what they hold is checked. Names may hold any character but
 * NUL; escape them before you print them on a terminal.
 */
#ifndef WAYMARK_LIST_H
#define WAYMARK_LIST_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct wm_list_field {
	const char *name;
	int type; /* WM_TYPE_*, waymark/marker.h */
};

/* One place. Valid, with all that it points to, during the callback only. */
struct wm_list_place {
	size_t size;
	/*
	 * 'm', 'i', 'b' or 'e': a marker, as of struct wm_event; 'u': a USDT probe; 'f': a
	 * function; 'a': an address or a source line; 0: a module that can't be read, see `error`.
	 */
	char kind;
	const char *name;   /* SUBSYSTEM:EVENT, as in a spec: without ":begin" and ":end" */
	const char *module; /* path of the program or library, as the process has it */
	/*
	 * In the process; of a file, as linked. 0: unknown, or the end of a scope, which has no
	 * instruction of its own.
	 */
	uint64_t address;
	const char *source; /* file of the source; "" if unknown */
	unsigned int line;  /* 0: unknown */
	/* What an event has; none with an error. `returns`: of the event at a function's return. */
	uint32_t field_count, return_count;
	const struct wm_list_field *fields, *returns;
	int error;	    /* why it can't be recorded, negative: wm_error_text(); 0: it can */
	const char *detail; /* what the error is about; may be "" */
};

/*
 * List the places that `spec` would record in a process or in a file: "marker:SUBSYSTEM:EVENT",
 * "usdt:PROVIDER:NAME", "func:NAME@FILE/ret,arg1/" or "addr:FILE+OFFSET", as for
 * wm_session_add(). A marker, a probe or an inlined function has a call for each of its places.
 * Places that can't be recorded are listed with an error.
 *
 * SUBSYSTEM, EVENT, PROVIDER, NAME and FILE may be globs, which match the whole name:
 *
 *	*	any characters, or none: in FILE also a slash, in NAME also "::"
 *	?	one character
 *	[abc]	one of these characters; [a-z] a range, [!abc] any other character
 *
 * A backslash has no meaning of its own. "marker:*:*", "usdt:*:*" and "func:*" list everything of
 * their kind. A NAME with "operator[" or "(" may have brackets that are no glob. An OFFSET, a
 * SOURCE or a LINE is no glob.
 *
 * `place` runs in the caller's thread. It may call all of Waymark's functions, and must not
 * longjmp() or throw. If it returns non-zero, the list ends with that value, but the current module
 * may be read to its end first. Reading the debug information of a large file takes seconds.
 *
 * Returns 0; or:
 *
 *	-EINVAL			a pointer is NULL, or the pid is not positive
 *	-WM_E_SPEC, -WM_E_FIELD_TYPE	the spec can't be read, or is a watch or a trail
 *	-WM_E_NO_MARKER, -WM_E_NO_USDT, -WM_E_NO_FUNCTION, -WM_E_NO_MODULE, -WM_E_...
 *				the spec has no glob and matches nothing
 *	-ENOENT, -EACCES, ...	the file can't be opened
 *	-WM_E_NOT_ELF, -WM_E_FOREIGN_ARCH, -WM_E_MODULE_DAMAGED	the file can't be read
 *	-ESRCH, -WM_E_GONE	there is no such process, or it has ended
 *	-EPERM, -EACCES		the caller may not read the process
 *	-ENOMEM
 */
int wm_list_process(pid_t pid, const char *spec,
		    int (*place)(const struct wm_list_place *place, void *data), void *data);
int wm_list_file(const char *path, const char *spec,
		 int (*place)(const struct wm_list_place *place, void *data), void *data);

#ifdef __cplusplus
}
#endif
#endif
