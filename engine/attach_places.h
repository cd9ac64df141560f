/* SPDX-License-Identifier: MIT */
/* For the tool: where the steps of attach.h are, in a page of the channel. */
#ifndef ENGINE_ATTACH_PLACES_H
#define ENGINE_ATTACH_PLACES_H

#include "abi/engine.h"

void attach_places(struct engine_channel *head);

#endif
