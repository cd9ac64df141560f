/* SPDX-License-Identifier: MIT */
#ifndef AGENT_DETOUR_RETURN_H
#define AGENT_DETOUR_RETURN_H

#include <stdint.h>

/*
 * What FIXUP_RETURN_ENTER is: a stub that is given the detour, and the address of the stack slot with the
 * return address in place of a payload. 0: there is none here.
 */
uint64_t detour_return_entry(void);

#endif
