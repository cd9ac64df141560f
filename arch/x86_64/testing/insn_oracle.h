/* SPDX-License-Identifier: MIT */
/*
 * insn_decode() held to what libzydis says of the same bytes. For tests.
 */
#ifndef ARCH_X86_64_TESTING_INSN_ORACLE_H
#define ARCH_X86_64_TESTING_INSN_ORACLE_H

#include <stddef.h>
#include <stdint.h>

/*
 * The first difference about the instruction at code[left]; NULL: equal. *bytes: its length, or 0.
 */
const char *insn_differs(const uint8_t *code, size_t left, int amd, unsigned int *bytes);

#endif
