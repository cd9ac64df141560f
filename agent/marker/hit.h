/* SPDX-License-Identifier: MIT */
#ifndef AGENT_MARKER_HIT_H
#define AGENT_MARKER_HIT_H

/* The stub that armed sites call; its address goes into wm_record.enter. See abi/site.h. */
void hit_enter(void);

#endif
