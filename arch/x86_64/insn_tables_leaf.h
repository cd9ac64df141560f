/* SPDX-License-Identifier: MIT */
/*
 * What a leaf says of an instruction that libzydis knows. For insn_tables_make.c.
 */
#ifndef ARCH_X86_64_INSN_TABLES_LEAF_H
#define ARCH_X86_64_INSN_TABLES_LEAF_H

#include "arch/x86_64/insn_tables.h"
#include "arch/x86_64/insn_tables_form.h"

/* All but its rules about validity. */
struct insn_leaf leaf_describe(const struct form *form, const struct answer *answer);

#endif
