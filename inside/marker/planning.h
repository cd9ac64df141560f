/* SPDX-License-Identifier: MIT */
/*
 * Making plans (plan.h), putting them in place, freeing them. Under the agent's lock but where
 * said.
 */
#ifndef INSIDE_MARKER_PLANNING_H
#define INSIDE_MARKER_PLANNING_H

#include "inside/marker/marker.h"

/*
 * Put the plan that fits a variant's lanes and probes in place; the old one is retired. Returns 0,
 * or -ENOMEM with nothing changed; never fails when there is nothing left to do at the marker.
 */
int planning_publish(struct variant *variant);

/* Take the variant's plan away without allocating. */
void planning_drop(struct variant *variant);

#endif
