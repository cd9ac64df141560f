/* SPDX-License-Identifier: MIT */
/*
 * The functions of the kernel and its modules, by /proc/kallsyms: of the kernel that ran, or of
 * none.
 */
#ifndef READ_HISTORY_KERNEL_SYMBOLS_H
#define READ_HISTORY_KERNEL_SYMBOLS_H

#include "target/code/symbol.h"

#include <stdint.h>

/* Whether the path of a module is the kernel's, or of one of its modules; base is the module's. */
int kernel_symbols_are(const char *path, uint64_t base);

/*
 * Read them, below `root` ("": this machine's), less `base`. For another kernel, by build id (in
 * hex; NULL: not known) and by the start of its text or the module: -WM_E_FILE_REPLACED. -EACCES if
 * addresses are not shown; -ENOENT, -ENOMEM. *names has the texts and *bytes the size that they
 * cover from base on: release the symbols, free the names.
 */
int kernel_symbols_read(struct code_symbols *symbols, char **names, uint64_t *bytes,
			const char *root, const char *path, uint64_t base, const char *build_id);

#endif
