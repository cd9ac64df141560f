/* SPDX-License-Identifier: MIT */
/* One thing about a machine or a process: its state, what was seen, and what would change it. */
#ifndef DOCTOR_FINDING_H
#define DOCTOR_FINDING_H

#include <stddef.h>

#define FINDING_BYTES 512

enum finding_state {
	FINDING_UNKNOWN, /* it could not be tried or read */
	FINDING_ABSENT,
	FINDING_LIMITED, /* it works, but not for all uses or not as well as it could */
	FINDING_FINE,
};

struct finding {
	const char *group, *name; /* static */
	enum finding_state state;
	int is_basic; /* Waymark is of little use without it */
	char found[FINDING_BYTES];
	char change[FINDING_BYTES]; /* what would make it better; "": nothing */
};

struct finding_list {
	struct finding *all;
	size_t count, room;
};

/*
 * A new one, FINDING_UNKNOWN and without words; valid until the next is added. Without memory it is
 * one in no list, so callers check nothing.
 */
struct finding *finding_add(struct finding_list *list, const char *group, const char *name);
void finding_list_release(struct finding_list *list);

/*
 * Set its state and add words to what was found. Several words are joined by semicolons, here and
 * below.
 */
void finding_say(struct finding *finding, enum finding_state state, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Add words to what was found. */
void finding_more(struct finding *finding, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Add what would change it. */
void finding_change(struct finding *finding, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* FINDING_ABSENT for this error: its text, then `words`; its hint is what would change it. */
void finding_error(struct finding *finding, int error, const char *words);

/* A basic one that was not seen to work: absent or unknown. */
int finding_is_lack(const struct finding *finding);

/* How many of these the list has. */
size_t finding_lacks(const struct finding_list *list);

/* "unknown", "absent", "limited", "fine". Static. */
const char *finding_state_name(enum finding_state state);

#endif
