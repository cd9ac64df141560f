/* SPDX-License-Identifier: MIT */
/*
 * Instructions as text, of the bytes that a trace has of them: so also of code that is in no file.
 * The name of a target or an operand's address follows, as in objdump: <function+0x12>.
 */
#ifndef READ_HISTORY_INSTRUCTION_H
#define READ_HISTORY_INSTRUCTION_H

#include "read/history/image.h"

#include <stddef.h>
#include <stdint.h>

#define INSTRUCTION_TEXT_BYTES 512

enum instruction_syntax { INSTRUCTION_ATT, INSTRUCTION_INTEL };

struct instruction_format;

/* One thread at a time uses a format. 0 or -ENOMEM; close allows NULL. */
int instruction_format_open(struct instruction_format **format, enum instruction_syntax syntax);
void instruction_format_close(struct instruction_format *format);

/*
 * The text of the instruction at code[left], whose address is `address` in the image's process
 * (NULL: names nothing). Returns its length in bytes, or -EILSEQ if it is invalid or cut: the text
 * then is "(bad)".
 */
int instruction_text(struct instruction_format *format, struct image *image, uint64_t address,
		     const uint8_t *code, size_t left, char text[INSTRUCTION_TEXT_BYTES]);

/* Its mnemonic alone, with prefixes: the first words of such a text. Returns text. */
char *instruction_mnemonic(char text[INSTRUCTION_TEXT_BYTES]);

/* An address as function+0x12, module+0x123 or 0x123, as far as it is known; in text[bytes]. */
void instruction_place(struct image *image, uint64_t address, char *text, size_t bytes);

#endif
