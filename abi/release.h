/* SPDX-License-Identifier: MIT */
/*
 * The release of an installed file of Waymark: a note in the agent's file and in the engine's,
 * which `waymark doctor` compares with its own. Owner "Waymark", type RELEASE_NOTE (abi/site.h's is
 * 1, abi/engine.h's 2). The description is RELEASE_TEXT with its NUL: the version, then the
 * versions of the layouts that both sides share, which may differ between two builds of one
 * version.
 */
#ifndef ABI_RELEASE_H
#define ABI_RELEASE_H

#include "abi/control.h"
#include "abi/engine.h"
#include "abi/page.h"

#define RELEASE_NOTE 3
#define RELEASE_BYTES_MAX 128

#define RELEASE_WORD(value) #value
#define RELEASE_NUMBER(value) RELEASE_WORD(value)

#define RELEASE_TEXT                                                                               \
	WAYMARK_VERSION " (control " RELEASE_NUMBER(CONTROL_VERSION) ", store " RELEASE_NUMBER(    \
		STORE_VERSION) ", engine " RELEASE_NUMBER(ENGINE_VERSION) ")"

/* At file scope, once in what is linked. */
#define RELEASE_HERE                                                                               \
	__asm__(".pushsection .note.waymark.release,\"a\",@note\n"                                 \
		".balign 4\n"                                                                      \
		".long 8, 2f - 1f, " RELEASE_NUMBER(RELEASE_NOTE) "\n"                             \
								  ".asciz \"Waymark\"\n"           \
								  "1: .asciz \"" RELEASE_TEXT      \
								  "\"\n"                           \
								  "2: .balign 4\n"                 \
								  ".popsection\n")

#endif
