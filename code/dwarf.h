/* SPDX-License-Identifier: MIT */
/*
 * A module's DWARF, from the file itself or the separate debug file. What libdw is given was read into
 * memory: a file that is cut short meanwhile is an error and no signal.
 */
#ifndef CODE_DWARF_H
#define CODE_DWARF_H

#include "code/file.h"

#include <elfutils/libdw.h>

struct code_dwarf {
	Elf *elf;
	Dwarf *dwarf; /* NULL: there is none, or it is damaged */
	int64_t bias; /* added to its addresses gives the module's, as linked */
};

/*
 * The file's DWARF, opened at the first call; it is the file's. NULL: there is none.
 */
struct code_dwarf *code_dwarf_of(struct code_file *file);

/* NULL is let pass. */
void code_dwarf_close(struct code_dwarf *dwarf);

#endif
