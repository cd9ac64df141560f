/* SPDX-License-Identifier: MIT */
/*
 * The running kernel, from /proc and /sys: where its code begins, its build id, its modules. All
 * below `root` ("": this machine's). Any thread.
 */
#ifndef BASE_KERNEL_IMAGE_H
#define BASE_KERNEL_IMAGE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * The path that the kernel itself has among a process's modules; its own modules are "[NAME]" too.
 */
#define KERNEL_PATH "[kernel]"
#define KERNEL_NAME_BYTES 64
#define KERNEL_IMAGE_ID_BYTES 20

FILE *kernel_image_file(const char *root, const char *path);

struct kernel_symbol {
	uint64_t address;
	char kind; /* as nm(1) has it */
	const char *name;
	const char *module; /* "[NAME]"; "" for the kernel's own */
};

/*
 * Call each() for every symbol of /proc/kallsyms whose address is shown, except those that mark the
 * text's begin at the address of its first function, until it returns other than 0, which is
 * returned; else 0. -ENOENT: there is no list.
 */
int kernel_image_symbols(const char *root,
			 int (*each)(const struct kernel_symbol *symbol, void *data), void *data);

/* The address of _stext. 0: absent, or addresses are not shown (kernel.kptr_restrict). */
uint64_t kernel_image_start(const char *root);

/* Its build id, in id[KERNEL_IMAGE_ID_BYTES]. How many bytes; 0: it is not known. */
size_t kernel_image_build_id(const char *root, uint8_t *id);

/*
 * Call each() for every module whose address is shown, until it returns other than 0, which is
 * returned; else 0.
 */
int kernel_image_modules(const char *root,
			 int (*each)(const char *name, uint64_t address, void *data), void *data);

#endif
