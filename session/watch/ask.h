/* SPDX-License-Identifier: MIT */
/* From a spec to what the agent is asked: a control_watch for each piece, and its event's text. */
#ifndef SESSION_WATCH_ASK_H
#define SESSION_WATCH_ASK_H

#include "abi/watch.h"
#include "code/watch/place.h"

#include <stddef.h>

#define ASK_TEXT_MAX 4096

struct asked_watch {
	struct control_watch
		about[WATCH_REGISTERS]; /* numbers, magic and generation are the caller's */
	unsigned int count;
	uint8_t conditions;	 /* of each */
	char text[ASK_TEXT_MAX]; /* the event's; "" where there is none, as only the count is wanted */
};

/*
 * `address`: of the place in the process. 0; -WM_E_WATCH_LARGE, -WM_E_WATCH_TEST, -WM_E_WATCH_OPTION, -WM_E_WATCH_LENGTH
 * with words.
 */
int ask_make(struct asked_watch *asked, const struct watch_expr *expr,
	     const struct watch_place *place, uint64_t address, struct watch_trouble *trouble);

#endif
