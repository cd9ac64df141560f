/* SPDX-License-Identifier: MIT */
/* Which origin a trail was recorded by, and why not by another. */
#ifndef CLI_ORIGINS_H
#define CLI_ORIGINS_H

#include "cli/json.h"
#include "record/session/session.h"

/* On stderr, where the choice was ours: which it is; if `verbose` also why not the others. */
void origins_tell(const struct wm_session *session, int verbose);

/*
 * For programs, as members of an object: the origin's name, and what is against each of the others.
 */
void origins_json(struct json *json, const struct live *live);

/* How its trail was recorded, to follow "recorded ...". Static. */
const char *origins_way(const struct live *live);

/* Say on stderr which programs the engine has left in the middle, and why. */
void origins_tell_natives(const struct live *live);

/* Say on stderr what could not be recorded or decoded, if anything. */
void origins_tell_losses(const struct live *live);

#endif
