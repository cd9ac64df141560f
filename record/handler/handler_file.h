/* SPDX-License-Identifier: MIT */
/*
 * A session's handlers from outside (abi/handler.h): their objects as read from files, and their
 * types compared with those of a process, before its agent loads them. That of a function or USDT
 * probe has a spec of its own, which has its number.
 */
#ifndef RECORD_HANDLER_HANDLER_FILE_H
#define RECORD_HANDLER_HANDLER_FILE_H

#include "abi/handler.h"
#include "base/detail.h"
#include "base/elf.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct process;
struct wm_session;

struct handler_object {
	char *path; /* as given */
	uint8_t build_id[ELF_BUILD_ID_BYTES];
	int build_id_bytes;
	unsigned char *bytes; /* of the file */
	size_t byte_count;
	uint64_t key;
	unsigned int first; /* the number of its first handler, less 1 */
	struct control_handler *all;
	char (*modules)[sizeof(((struct wm_handler *)NULL)->module)]; /* "": any, or a marker */
	unsigned int count;
	pid_t stays_in; /* a process where it could not be unloaded; 0: none */
	pid_t ended_in; /* the first process that ended while a handler ran, and which; 0: none */
	unsigned int ended_number;
};

struct handlers {
	struct handler_object *objects;
	size_t count;
};

/* Read an object's handlers. 0, or -errno, -WM_E_NOT_ELF, -WM_E_HANDLER ... with words. */
int handler_object_read(struct handler_object *object, const char *path, struct detail detail);
void handler_object_release(struct handler_object *object);

/* Its event is at a function's return, of a call that is replaced, too. */
static inline int handler_is_at_return(const struct control_handler *handler)
{
	return handler->kind == 'r' || handler->kind == 'x';
}

/* The spec for a handler's hits, in text[bytes]. 0; -WM_E_HANDLER: a probe can't have a type. */
int handler_spec(const struct handler_object *object, unsigned int number, char *text,
		 size_t bytes);

/* "(int32, string)", as the handler has them. */
const char *handler_types(const uint8_t types[16], char *text, size_t bytes);

/*
 * Compare the types of all handlers with those of a process's markers and probes: 0; -WM_E_HANDLER,
 * with words that have both lists; or an error with words.
 */
int handlers_check(const struct wm_session *session, const struct process *process,
		   struct detail detail);

/* Before anything is armed in a process, or adopted by it: have its agent load them. Once. */
int handlers_send(struct wm_session *session, struct process *process);

/* A process is about to leave the session: note the handler in which it ended. */
void handlers_ended(struct wm_session *session, const struct process *process);

/* The file of an object, which a process loads from a memfd, by its build id; NULL: none. */
const char *handlers_path(const struct wm_session *session, const uint8_t *id, int id_bytes);

#endif
