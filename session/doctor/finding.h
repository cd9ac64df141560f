/* SPDX-License-Identifier: MIT */
/*
 * What was found of a machine or a process, one thing each: how it stands, what was seen, and what would change it.
 */
#ifndef SESSION_DOCTOR_FINDING_H
#define SESSION_DOCTOR_FINDING_H

#include <stddef.h>

#define FINDING_BYTES 512

enum finding_state {
	FINDING_UNKNOWN, /* what would tell can't be read */
	FINDING_ABSENT,
	FINDING_LIMITED, /* it works, but not for all, or not for all that it could */
	FINDING_FINE,
};

struct finding {
	const char *group, *name; /* static */
	enum finding_state state;
	int is_basic;		    /* waymark is of little use without it */
	char found[FINDING_BYTES];  /* whole sentences would be too long: words behind the name */
	char change[FINDING_BYTES]; /* what would make it better; "": nothing can, or need */
};

struct finding_list {
	struct finding *all;
	size_t count, room;
};

/*
 * One more, FINDING_UNKNOWN and without words; valid until the next is added. Where there is no memory it is one that is
 * in no list, so that nobody has to ask.
 */
struct finding *finding_add(struct finding_list *list, const char *group, const char *name);
void finding_list_release(struct finding_list *list);

/* Its state, and words that are added to what was found. */
void finding_say(struct finding *finding, enum finding_state state, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* More words, behind a semicolon where some stand there. */
void finding_more(struct finding *finding, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* What would change it; several are added with a semicolon between. */
void finding_change(struct finding *finding, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The first of that name; NULL: there is none. */
const struct finding *finding_of(const struct finding_list *list, const char *name);

/* A basic one that was not seen to work: it is absent, or not known. */
int finding_is_lack(const struct finding *finding);

/* How many of these there are. */
size_t finding_lacks(const struct finding_list *list);

/* "unknown", "absent", "limited", "fine". Static. */
const char *finding_state_name(enum finding_state state);

#endif
