/* SPDX-License-Identifier: MIT */
/*
 * From what a user asks for (target/code/code_request.h) to places in a module's code
 * (target/code/probe_place.h).
 */
#ifndef TARGET_CODE_RESOLVE_H
#define TARGET_CODE_RESOLVE_H

#include "target/code/file.h"
#include "target/code/probe_place.h"
#include "target/code/code_request.h"
#include "target/code/symbol.h"
#include "target/code/usdt.h"

#include <stdint.h>

/* A module with what was read of it; what is asked for first reads it. */
struct code_module {
	struct code_file *file;
	uint64_t base; /* in the process: added to addresses as linked */
	struct code_symbols symbols;
	struct code_usdt_list usdt;
	int has_symbols, has_usdt; /* read already */
	int usdt_err;
	struct sweep *outline; /* return_look.c's; NULL: not needed yet */
};

/* A running process, as far as resolving needs it: for functions that are chosen when it starts. */
struct code_process {
	struct code_memory memory;
	struct code_module *const *modules;
	size_t module_count;
};

/*
 * One place, or one that can't be had: then `err` says why (-WM_E_*), `detail` in words what ("" if
 * the cause says it all), and of the place only the names and the address may be relied on, which
 * is 0 if unknown. All texts last as long as the call. A return other than 0 ends the search.
 */
typedef int code_found(const struct code_place *place, int err, const char *detail, void *data);

/* Take a file; the module closes it. */
void code_module_init(struct code_module *module, struct code_file *file, uint64_t base);
void code_module_release(struct code_module *module);

/* The module's functions, its USDT probes; read at the first call. NULL without memory. */
const struct code_symbols *code_module_symbols(struct code_module *module);
const struct code_usdt_list *code_module_usdt(struct code_module *module);

/*
 * Call found() for each place that the request names in a module, whose path is not compared with
 * the request's (code_request_takes()). `process` may be NULL: a file that doesn't run.
 *
 * Returns how many calls there were; what found() returned, if not 0; -ENOMEM; or why there is
 * nothing: -WM_E_NO_FUNCTION, -WM_E_NO_SYMBOLS, -WM_E_NO_USDT, -WM_E_MODULE_DAMAGED,
 * -WM_E_NO_DEBUG, -WM_E_KERNEL_CODE.
 */
int code_resolve(const struct code_request *request, struct code_module *module,
		 const struct code_process *process, code_found *found, void *data);

#endif
