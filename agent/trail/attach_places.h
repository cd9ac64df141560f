/* SPDX-License-Identifier: MIT */
/* For the tool: where the steps of attach.h are, in a page of the channel. */
#ifndef AGENT_TRAIL_ATTACH_PLACES_H
#define AGENT_TRAIL_ATTACH_PLACES_H

#include "abi/engine.h"

void attach_places(struct engine_channel *head);

#endif
