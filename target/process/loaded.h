/* SPDX-License-Identifier: MIT */
/*
 * The modules that a process has loaded, read from outside: its map, and the headers in its memory.
 */
#ifndef TARGET_PROCESS_LOADED_H
#define TARGET_PROCESS_LOADED_H

#include "base/elf.h"
#include "base/maps.h"
#include "target/code/resolve.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Which module it is: a file may be rewritten in place, and mapped at the same address again. */
struct loaded_id {
	uint64_t start;		/* where its ELF header is */
	uint64_t device, inode; /* of its file; 0 of the vdso */
	uint8_t build_id[ELF_BUILD_ID_BYTES];
	int build_id_bytes; /* 0: none */
};

struct loaded {
	struct loaded_id id;
	uint64_t base; /* what was added to every address */
	char *path;    /* as the process has it */
	struct code_aliases aliases;
	int is_program;		    /* by the kernel */
	int is_listed;		    /* a library, in the loader's list */
	struct code_module *module; /* once loaded_open() could open it */
	int error;		    /* why it could not */
};

struct loaded_list {
	struct loaded *all; /* in order of address */
	size_t count, room;
	int mem; /* /proc/PID/mem; -1: not open */
	pid_t pid;
	struct code_module **modules; /* those that were opened */
	size_t module_count;
	int is_open;
};

/*
 * Read them. 0; -ESRCH where the process has ended; -EACCES or -EPERM where we may not read its
 * memory; -ENOMEM. Release also after an error.
 */
int loaded_read(struct loaded_list *list, pid_t pid);
void loaded_release(struct loaded_list *list);

/* Whether it is the same build of the same file at the same place. */
int loaded_id_is(const struct loaded_id *a, const struct loaded_id *b);

/*
 * Whether the mapping may begin a module: *first is it, of the module's file. That is also
 * anonymous memory where a program moved its first segment, with the header and its code.
 */
int loaded_begins(const struct maps *maps, size_t index, struct map *first);

/*
 * Does the module whose ELF header is in `first` run there, or has a program only mapped its file
 * to read it? 1: code of the same file is mapped where the header says; or other memory that may
 * run, as where a program moved its text to huge pages, with other parts of the file around it.
 */
int loaded_runs(const struct elf *elf, const struct maps *maps, const struct map *first);

/* The short name that its events have: a program's is the name that it was started by. */
void loaded_name(const struct loaded *loaded, char *name, size_t bytes);

/* Open their files, unless that was done. 0 or -ENOMEM. */
int loaded_open(struct loaded_list *list);

/* Whether there is code of Go in that one; 0 where its file can't be had. */
int loaded_is_go(struct loaded_list *list, const struct loaded *loaded);

/* The process, for code_resolve(), as long as the list lasts. */
struct code_process loaded_process(struct loaded_list *list);

#endif
