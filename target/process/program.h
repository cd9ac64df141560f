/* SPDX-License-Identifier: MIT */
/* What kind of program a file is, before it is started or entered. */
#ifndef TARGET_PROCESS_PROGRAM_H
#define TARGET_PROCESS_PROGRAM_H

#include <limits.h>
#include <stdint.h>

struct elf;

struct program {
	char path[PATH_MAX];   /* the file that execve(2) is given */
	char binary[PATH_MAX]; /* the ELF file that runs: path, or the interpreter of a script */
	uint8_t build_id[20];
	uint8_t build_id_bytes; /* 0: it has none */
	uint8_t has_agent;	/* libwaymark-agent.a is linked into it */
};

/*
 * Find a program as execvp(3) does and see whether the agent can be preloaded into it. Returns 0,
 * -ENOENT, -EACCES, -ELOOP, -WM_E_NOT_ELF, -WM_E_SECURE_PROGRAM, -WM_E_STATIC_PROGRAM,
 * -WM_E_FOREIGN_ARCH, -WM_E_FOREIGN_LIBC or another -errno; path and binary then name the file.
 */
int program_find(struct program *program, const char *name);

/*
 * As program_find() for the ELF file at `path`, which is only read: architecture, dynamic linking,
 * C library, build id; what its mode says is not looked at.
 */
int program_read(struct program *program, const char *path);

/* Whether a process of our own ids has more rights once it has executed the file. */
int program_gains_rights(const char *path);

/*
 * Whether a loader of the program's own can bring the agent in: 0, -WM_E_STATIC_PROGRAM,
 * -WM_E_FOREIGN_LIBC.
 */
int program_takes_agent(const struct elf *elf);

#endif
