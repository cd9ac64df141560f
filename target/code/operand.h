/* SPDX-License-Identifier: MIT */
/*
 * The arguments of USDT probes: assembler operands with a size before them, as <sys/sdt.h> leaves
 * them in a note. "-4@%edi 8@-16(%rbp,%rax,8) 8f@%xmm0 4@counter+4(%rip) -8@$-1"
 *
 * The size is of the value: signed with a minus, a float with an f. It need not be the operand's
 * own width: of a wider register the low bytes count, and a value can't be wider than the register
 * it is in. Where the size is missing, as older headers had it, a register has its width and all
 * else 8 bytes.
 */
#ifndef TARGET_CODE_OPERAND_H
#define TARGET_CODE_OPERAND_H

#include "target/code/probe_place.h"

#include <stddef.h>
#include <stdint.h>

/* Finds a symbol's address as linked: 0, or -ENOENT unless exactly one has the name. */
struct operand_symbols {
	int (*find)(void *data, const char *name, uint64_t *address);
	void *data;
	int is_fixed; /* the module is loaded where it was linked: addresses are numbers */
};

/*
 * Read one argument: its operand, and its type (WM_TYPE_*). `symbols` may be NULL. 0, or
 * -WM_E_OPERAND.
 */
int operand_parse(const char *text, const struct operand_symbols *symbols,
		  struct code_operand *operand, uint8_t *type);

/*
 * Copy the argument that begins at *text, or after spaces, to argument[bytes]; *text moves behind
 * it. Returns 1, 0 at the end, -WM_E_OPERAND when it is too long and was cut.
 */
int operand_next(const char **text, char *argument, size_t bytes);

/* The register of a name without its %, "rdi", "r9d", "ah", "xmm3". 0, or -WM_E_OPERAND. */
int operand_register(const char *name, struct code_operand *operand);

#endif
