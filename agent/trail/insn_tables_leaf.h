/* SPDX-License-Identifier: MIT */
/*
 * What a leaf says of an instruction that libzydis knows. For insn_tables_make.c.
 */
#ifndef AGENT_TRAIL_INSN_TABLES_LEAF_H
#define AGENT_TRAIL_INSN_TABLES_LEAF_H

#include "agent/trail/insn_tables.h"
#include "agent/trail/insn_tables_form.h"

/* All but its rules about validity. */
struct insn_leaf leaf_describe(const struct form *form, const struct answer *answer);

#endif
