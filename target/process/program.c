/* SPDX-License-Identifier: MIT */
#include "target/process/program.h"

#include "abi/release.h"
#include "base/elf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <waymark/error.h>

#define SCRIPT_DEPTH_MAX 4  /* the kernel's own limit: fs/exec.c, exec_binprm() */
#define SCRIPT_LINE_MAX 256 /* BINPRM_BUF_SIZE */

/*
 * Whether the kernel would set AT_SECURE for us: ids that differ from ours, or capabilities gained.
 */
static int gains_privileges(const char *path, const struct stat *st)
{
	struct statvfs fs;

	if (statvfs(path, &fs) == 0 && (fs.f_flag & ST_NOSUID))
		return 0;
	if ((st->st_mode & S_ISUID) && st->st_uid != geteuid())
		return 1;
	if ((st->st_mode & S_ISGID) && (st->st_mode & S_IXGRP) && st->st_gid != getegid())
		return 1;
	return geteuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0;
}

int program_gains_rights(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode) &&
	       st.st_mode & (S_IXUSR | S_IXGRP | S_IXOTH) && gains_privileges(path, &st);
}

int program_takes_agent(const struct elf *elf)
{
	const Elf64_Phdr *segment = elf_segment(elf, PT_INTERP);
	char interpreter[PATH_MAX] = "";

	if (!segment)
		return -WM_E_STATIC_PROGRAM;
	/* musl's loader is its C library; a glibc of before 2.34 is found out by the agent */
	if (elf_read_text(elf, segment->p_vaddr, interpreter, sizeof(interpreter)) > 0 &&
	    strstr(interpreter, "/ld-musl"))
		return -WM_E_FOREIGN_LIBC;
	return 0;
}

int program_read(struct program *program, const char *path)
{
	char release[RELEASE_BYTES_MAX];
	struct elf elf;
	int err;

	snprintf(program->binary, sizeof(program->binary), "%s", path);
	err = elf_open(&elf, path);
	if (!err)
		program->build_id_bytes = (uint8_t)elf_build_id(&elf, program->build_id);
	if (!err)
		err = program_takes_agent(&elf);
	program->has_agent = elf.segment_count && !elf_release_text(&elf, release, sizeof(release));
	elf_release(&elf);
	return err;
}

/* The interpreter that a script names; 0 where the file is no script. */
static int read_script(int fd, char interpreter[SCRIPT_LINE_MAX])
{
	char line[SCRIPT_LINE_MAX];
	ssize_t got = pread(fd, line, sizeof(line) - 1, 0);
	size_t at, bytes;

	if (got < 2 || line[0] != '#' || line[1] != '!')
		return 0;
	line[got] = 0;
	line[strcspn(line, "\n")] = 0;
	at = 2 + strspn(line + 2, " \t");
	bytes = strcspn(line + at, " \t");
	memcpy(interpreter, line + at, bytes);
	interpreter[bytes] = 0;
	return bytes > 0;
}

/* A file that may be executed: checked, and where it is a script, the interpreter in its stead. */
static int check_file(struct program *program, const char *path, int depth)
{
	char interpreter[SCRIPT_LINE_MAX];
	struct stat st;
	int fd, is_script;

	snprintf(program->binary, sizeof(program->binary), "%s", path);
	if (stat(path, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) < 0)
		return -EACCES;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		/* executable but not readable: nothing can be said of it but its mode */
		return gains_privileges(path, &st) ? -WM_E_SECURE_PROGRAM : -errno;
	}
	is_script = read_script(fd, interpreter);
	close(fd);
	if (is_script) {
		/* the kernel ignores a script's own setuid bit */
		return depth < SCRIPT_DEPTH_MAX ? check_file(program, interpreter, depth + 1)
						: -ELOOP;
	}
	if (gains_privileges(path, &st))
		return -WM_E_SECURE_PROGRAM;
	return program_read(program, path);
}

/* execvp(3): along PATH, past what is not there; what may not be executed is remembered. */
static int search(char path[PATH_MAX], const char *name)
{
	const char *list = getenv("PATH");
	int err = -ENOENT;

	if (!list)
		list = "/bin:/usr/bin";
	for (;;) {
		size_t bytes = strcspn(list, ":");
		struct stat st;
		int got = snprintf(path, PATH_MAX, "%.*s%s%s", (int)bytes, list, bytes ? "/" : "",
				   name);

		if (got > 0 && got < PATH_MAX && stat(path, &st) == 0) {
			if (S_ISREG(st.st_mode) && faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0)
				return 0;
			err = -EACCES;
		}
		if (!list[bytes])
			return err;
		list += bytes + 1;
	}
}

int program_find(struct program *program, const char *name)
{
	int err;

	*program = (struct program){ 0 };
	if (!name[0])
		return -ENOENT;
	if (strlen(name) >= sizeof(program->path))
		return -ENAMETOOLONG;
	if (strchr(name, '/')) {
		strcpy(program->path, name);
	} else {
		err = search(program->path, name);
		if (err) {
			strcpy(program->path, name);
			strcpy(program->binary, name);
			return err;
		}
	}
	return check_file(program, program->path, 0);
}
