/* SPDX-License-Identifier: MIT */
/*
 * What the classes of a trace's events are to a reader of calls that lock or wait, found once for
 * each process. One thread.
 */
#ifndef READ_LOCKS_CALL_ROLES_H
#define READ_LOCKS_CALL_ROLES_H

#include "trace/facts.h"

#include <stdint.h>

#define CALL_FIELD_NONE (-1)

struct call_role {
	uint8_t kind; /* the reader's own; 0: it does not take the event */
	uint8_t lock_bytes;
	int8_t object, lock, duration, result, caller; /* which fields; CALL_FIELD_NONE */
};

struct call_roles {
	struct call_role **all; /* of each process, by class index; NULL: it has none */
	uint32_t count;
};

typedef struct call_role (*call_role_of)(const struct trace_class *class);

/* 0 or -ENOMEM; release in any case. */
int call_roles_make(struct call_roles *roles, const struct facts *facts, call_role_of role_of);
void call_roles_release(struct call_roles *roles);

/* The role of a process's class; NULL: the reader does not take it. `class` may be NULL. */
const struct call_role *call_role_find(const struct call_roles *roles, uint32_t process,
				       const struct trace_class *class);

/* Whether some class has this kind; 0: any. */
int call_roles_have(const struct facts *facts, call_role_of role_of, uint8_t kind);

#endif
