/* SPDX-License-Identifier: MIT */
#ifndef TARGET_EXPRESSION_TESTING_SAMPLE_WATCH_LIVE_H
#define TARGET_EXPRESSION_TESTING_SAMPLE_WATCH_LIVE_H

struct pair {
	int x, y;
};

struct thing {
	long first;
	short second;
	struct pair inner[2];
};

extern int exported; /* a program that is not position-independent has a copy of it */
extern struct thing *thing;

void library_tell(void);

#endif
