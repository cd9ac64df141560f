/* SPDX-License-Identifier: MIT */
#include "inside/watch/watch_entry.h"

struct watch_entry watch_entries[WATCH_ROWS_MAX];
uint64_t watch_live;
uint32_t watch_inside;
uint32_t watch_past[WATCH_PAST_MAX];
uintptr_t watch_own_start, watch_own_end;
