/* SPDX-License-Identifier: MIT */
/* What the two halves of the watches' sample know of each other. */
#ifndef TARGET_EXPRESSION_TESTING_SAMPLE_WATCH_H
#define TARGET_EXPRESSION_TESTING_SAMPLE_WATCH_H

struct sample_other; /* complete in sample_watch_twin.c alone */
extern struct sample_other sample_other;

int next_id(void);
int other_id(void);
int sample_sum(void);
int sample_count(void);

#endif
