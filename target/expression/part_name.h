/* SPDX-License-Identifier: MIT */
/* What of a variable is at an address: the other way round than an expression. */
#pragma once

#include "target/code/file.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Write what is at an address as linked, in the variable of that name (as "shop::pool"), and has so
 * many bytes: ".lock", "[2].lock". The outermost one where several begin there. 0; -ENOENT: debug
 * information has none there, or another variable of the name; -ENOMEM. Any thread.
 */
int expression_part_name(struct code_file *file, const char *variable, uint64_t address,
			 uint64_t bytes, char *text, size_t room);
