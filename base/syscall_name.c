/* SPDX-License-Identifier: MIT */
#include "base/syscall_name.h"

#include <stddef.h>

static const char *const names[] = {
#define X(number, name) [number] = #name,
#include <base/syscall_name.def> /* made by the build */
#undef X
};

const char *syscall_name(uint64_t number)
{
	return number < sizeof(names) / sizeof(names[0]) ? names[number] : NULL;
}
