/* SPDX-License-Identifier: MIT */
/*
 * Where instructions of recorded processes stand in their source, while the recording goes on: by the modules that each process has
 * told, so also once it has ended.
 */
#ifndef CLI_WATCH_WHERE_H
#define CLI_WATCH_WHERE_H

#include "session/session.h"

#include <stdint.h>

struct where {
	uint64_t address;     /* 0: nobody knows */
	const char *module;   /* the last part of its path; NULL: in none that is known */
	const char *function; /* NULL: not known */
	const char *source;   /* NULL: not known */
	uint64_t offset;      /* in the function, or in the module where that is not known */
	unsigned int line;
};

struct watch_wheres;

/* 0 or -ENOMEM; the session must live as long as it is asked. Free allows NULL. */
int watch_wheres_new(struct watch_wheres **wheres, struct wm_session *session);
void watch_wheres_free(struct watch_wheres *wheres);

/*
 * The place of an instruction in a process, by its number in the session: a pid may have run several programs. Valid until all are freed; the same place is told by the same pointer. NULL: no
 * memory.
 */
const struct where *watch_where(struct watch_wheres *wheres, uint32_t process, uint64_t address);

/* As "worker (bank.c:41)", "worker+0x12", "libc.so.6+0x1234", "0x7f..." or, of 0, "?" in text[room]. Returns text. */
char *watch_where_text(const struct where *where, char *text, size_t room);

#endif
