/* SPDX-License-Identifier: MIT */
/*
 * Code on pages that no guard protects: it is compared with what was translated before it runs. The
 * engine does that where a page may be guarded again (PAGE_CHECKED), the trace itself where no
 * write to it will ever be seen (PAGE_OPEN): as of a JIT that writes its code at another address.
 *
 * Under the engine's lock.
 */
#ifndef INSIDE_ENGINE_CHECKED_CODE_H
#define INSIDE_ENGINE_CHECKED_CODE_H

#include "inside/engine/making.h"

/*
 * Whether the trace's code is still what was translated. 0 also where that is to be read first, or
 * where the page may be guarded.
 */
int checked_code_holds(const struct trace *trace, struct code_read *read);

/*
 * Whether the trace that has been made is to be made again with a comparison of its code, whose
 * length is known now: m->check_bytes.
 */
int checked_code_is_due(struct making *m);

/* The comparison, at the trace's head. */
void checked_code_emit(struct making *m);

#endif
