/* SPDX-License-Identifier: MIT */
/*
 * Handlers from outside (include/waymark/handler.h): shared objects that a tool has the agent load.
 *
 * The tool reads an object's records from its file, and checks their types against the process's
 * markers and probes. Then it sends the file in pieces, CONTROL_HANDLER_FILE, and the object's
 * handlers, CONTROL_HANDLERS. The agent puts the file into a memfd, so that neither permissions nor
 * mount namespaces matter. It loads the memfd by dlopen(3) in a thread of its own. Until that has
 * ended it reads no more requests of the session. If it can't load the object, it sends
 * CONTROL_HANDLER_FAILED with words before the answer, and arms nothing for the session any more.
 *
 * The handlers of a session are numbered from 1, in the order in which they came. That of a marker
 * takes the markers of its name, kind and types; a detour (abi/detour.h) has the number of its own.
 * A handler is called for each hit that the session would record, once its predicates hold and
 * before anything is written. A child of a fork has the object already, and knows it by its key.
 *
 * CONTROL_UNLOAD, behind QUIET: unload what no thread runs any more. The answer is -ETIMEDOUT where
 * a handler has not returned for UNLOAD_WAIT_MS: then the object stays.
 */
#ifndef ABI_HANDLER_H
#define ABI_HANDLER_H

#include <stddef.h>
#include <stdint.h>
#include <waymark/handler.h>

#define HANDLER_SECTION "waymark_handlers"
#define HANDLER_FILE_BYTES_MAX (16u << 20)
#define HANDLERS_MAX 255 /* of one session: a detour has a byte for the number */
#define HANDLER_NAME_BYTES sizeof(((struct wm_handler *)0)->name)
#define HANDLER_OBJECT_BYTES 64
#define UNLOAD_WAIT_MS 10000

struct control_handler_file {
	uint64_t key; /* of the object, unique to it and the session */
	uint64_t offset;
};

struct control_handlers {
	uint64_t key;
	uint32_t count;
	uint32_t reserved;
	char object[HANDLER_OBJECT_BYTES]; /* the file's name, NUL-terminated */
};

struct control_handler {
	uint64_t at; /* of its struct wm_handler, as linked */
	uint8_t types[16];
	uint8_t kind;
	uint8_t reserved[7];
	char name[HANDLER_NAME_BYTES]; /* NUL-terminated */
};

_Static_assert(sizeof(struct wm_handler) == 256, "as handler.h writes it");
_Static_assert(sizeof(struct control_handler_file) == 16, "fixed");
_Static_assert(sizeof(struct control_handlers) == 80, "fixed");
_Static_assert(sizeof(struct control_handler) == 192, "fixed");

#endif
