/* SPDX-License-Identifier: MIT */
/*
 * What a recording did not do as asked, or what its user should know, in words. Each room of a
 * session adds what it found; the caller prints the list, or puts it into JSON.
 */
#ifndef RECORD_SESSION_FINDINGS_H
#define RECORD_SESSION_FINDINGS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct name_list;
struct spec_list;
struct wm_session;

enum finding_severity {
	FINDING_NOTE,	 /* how it was recorded */
	FINDING_DETAIL,	 /* the same, for those who ask */
	FINDING_LOSS,	 /* something is missing */
	FINDING_FAILURE, /* nothing is there of what a spec asked for */
};

struct finding {
	const char *kind; /* static; see waymark-json(5) */
	enum finding_severity severity;
	int is_part;	    /* of the last finding before it that is no part */
	uint64_t count;	    /* of what the text names: processes, places ...; 0: uncounted */
	char *subject;	    /* an event, a program, a spec; NULL: the text names it */
	char *text;	    /* one line; NULL: there was no memory for it */
	char *detail;	    /* more about this subject; NULL: nothing */
	const char *remedy; /* what to do about it, static; "": nothing */
	char *module;	    /* of a place: the file, NULL: unknown */
	uint64_t address;   /* of a place; 0: unknown */
	pid_t pid;	    /* the first process; 0: none in particular */
};

/* Zeroed is empty. */
struct findings {
	struct finding *all;
	size_t count, room;
	struct finding spare; /* what is added when there is no memory, and lost */
};

/*
 * Add a finding; the caller may set its other members, and owns none. Never NULL; valid until the
 * next one is added.
 */
struct finding *finding_add(struct findings *list, const char *kind, enum finding_severity severity,
			    const char *format, ...) __attribute__((format(printf, 4, 5)));

/*
 * Add "2 processes WORDS" for a count of `noun`, a loss, unless the count is 0.
 */
struct finding *finding_counted(struct findings *list, const char *kind, uint64_t count,
				const char *noun, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

/*
 * Add an error about a subject, with its remedy; `detail` may be NULL or "". finding_part(): as a
 * part of the finding before it.
 */
struct finding *finding_error(struct findings *list, const char *kind,
			      enum finding_severity severity, const char *subject, int error,
			      const char *detail);
struct finding *finding_part(struct findings *list, const char *kind, const char *subject,
			     int error, const char *detail);

/* The first failure; NULL: none. */
const struct finding *findings_failure(const struct findings *list);

void findings_release(struct findings *list);

/*
 * Add what all rooms of a session found when it has started, or (`is_over`) has stopped. Specs that
 * nothing matched are left to spec_findings().
 */
void session_findings(struct wm_session *session, int is_over, struct findings *list);

/*
 * Add a failure for each spec of markers or places that nothing matched, with similar names; and,
 * if they were to be `placed`, for each that has no usable place.
 */
void spec_findings(const struct spec_list *specs, const struct name_list *names, int placed,
		   struct findings *list);

#endif
