/* SPDX-License-Identifier: MIT */
/*
 * Functions whose code is chosen when the program starts (IFUNC): which one it became in a process.
 */
#ifndef TARGET_CODE_CHOSEN_H
#define TARGET_CODE_CHOSEN_H

#include "target/code/resolve.h"

#define CODE_CHOSEN_MAX 8

/*
 * Find which code an IFUNC function of a module became: from the relocated words of the module and
 * of other modules that call it. Puts addresses as linked, each once, in
 * addresses[CODE_CHOSEN_MAX]; several where a process has several answers. Returns how many; 0 when
 * no word shows it, as when nothing calls the function; -WM_E_KERNEL_CODE; -ENOMEM.
 */
int code_chosen_find(const struct code_process *process, struct code_module *module,
		     const struct code_function *function, uint64_t *addresses);

#endif
