/* SPDX-License-Identifier: MIT */
/* The module that tests of code/ read. */
#ifndef TARGET_CODE_TESTING_SAMPLE_MODULE_H
#define TARGET_CODE_TESTING_SAMPLE_MODULE_H

int sample_global(int a, const char *b);
int sample_alias(int a, const char *b);
int sample_calls_same(int a);
int sample_other_same(int a);
int sample_chosen(int a);
int sample_calls_chosen(int a);
void sample_two_statements(volatile int *to);
const void *sample_fast(void); /* what sample_chosen is */

#endif
