/* SPDX-License-Identifier: MIT */
/*
 * waymark/marker.h: the assembler of a note for SystemTap's readers. Nothing in here is for use.
 */
#ifndef WAYMARK_MARKER_NOTE_H
#define WAYMARK_MARKER_NOTE_H

/*
 * SystemTap's note, version 3 (its wiki, "UserSpaceProbeImplementation"), about the instruction at
 * this place. All are string literals, except semaphore, which is a symbol or 0.
 */
#define WM__SDT_NOTE(instruction, semaphore, provider, name, arguments)                            \
	"990: " instruction "\n\t"                                                                 \
	".pushsection .note.stapsdt,\"?\",@note\n\t"                                               \
	".balign 4\n\t"                                                                            \
	".4byte 992f-991f, 994f-993f, 3\n"                                                         \
	"991: .asciz \"stapsdt\"\n"                                                                \
	"992: .balign 4\n"                                                                         \
	"993: .8byte 990b, _.stapsdt.base, " #semaphore "\n\t"                                     \
	".asciz \"" provider "\"\n\t"                                                              \
	".asciz \"" name "\"\n\t"                                                                  \
	".asciz \"" arguments "\"\n"                                                               \
	"994: .balign 4\n\t"                                                                       \
	".popsection\n\t"                                                                          \
	".ifndef _.stapsdt.base\n\t"                                                               \
	".pushsection .stapsdt.base,\"aG\",@progbits,.stapsdt.base,comdat\n\t"                     \
	".weak _.stapsdt.base\n\t"                                                                 \
	".hidden _.stapsdt.base\n"                                                                 \
	"_.stapsdt.base: .space 1\n\t"                                                             \
	".size _.stapsdt.base, 1\n\t"                                                              \
	".popsection\n\t"                                                                          \
	".endif"

#endif
