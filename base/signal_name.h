/* SPDX-License-Identifier: MIT */
/* Signals as people write them. */
#ifndef BASE_SIGNAL_NAME_H
#define BASE_SIGNAL_NAME_H

#include <stdint.h>

/* TERM, SIGTERM, RTMIN, RTMIN+1, in any letter case, or a number. 0: there is no such signal. */
int signal_name_read(const char *text);

/* As "SIGTERM", "SIGRTMIN+1", or "signal 99" without a name; into text[]. Returns text. */
const char *signal_name_show(uint64_t number, char text[32]);

#endif
