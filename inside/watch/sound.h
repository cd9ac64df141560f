/* SPDX-License-Identifier: MIT */
/* Whether what is asked for is a watch (abi/watch.h). */
#ifndef INSIDE_WATCH_SOUND_H
#define INSIDE_WATCH_SOUND_H

#include "abi/watch.h"

#include <stddef.h>

int sound_is(const struct control_watch *about, const char *text, size_t bytes);

#endif
