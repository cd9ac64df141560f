/* SPDX-License-Identifier: MIT */
/* For the tool: where the steps of attach.h are, in a page of the channel. */
#ifndef INSIDE_ENGINE_ATTACH_PLACES_H
#define INSIDE_ENGINE_ATTACH_PLACES_H

#include "abi/engine.h"

void attach_places(struct engine_channel *head);

#endif
