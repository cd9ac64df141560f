/* SPDX-License-Identifier: MIT */
/* Places at functions' entries: a part of code_resolve(). */
#ifndef TARGET_CODE_FUNCTION_H
#define TARGET_CODE_FUNCTION_H

#include "target/code/resolve.h"

/* As code_resolve(), for REQUEST_FUNCTION. */
int code_resolve_function(const struct code_request *request, struct code_module *module,
			  const struct code_process *process, code_found *found, void *data);

#endif
