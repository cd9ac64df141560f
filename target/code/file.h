/* SPDX-License-Identifier: MIT */
/*
 * A module's file, as its code is read: segments, sections, bytes by address, build id, and the
 * files that hold what was stripped from it.
 *
 * Files may be hostile: what is read is checked against what is there, nothing is mapped, and what
 * is unpacked has a bound. Addresses are as linked; in a process the module's base is added.
 *
 * A file belongs to one thread at a time.
 */
#ifndef TARGET_CODE_FILE_H
#define TARGET_CODE_FILE_H

#include "base/cfi.h"

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#define CODE_BUILD_ID_MAX 64

struct code_segment {
	uint64_t address, bytes; /* once loaded */
	uint64_t offset, file_bytes;
	uint64_t alignment;
	uint32_t type, flags; /* PT_*, PF_* */
};

struct code_section {
	const char *name;
	uint64_t address, bytes, offset;
	uint64_t flags; /* SHF_* */
	uint32_t type, link, info;
	uint32_t index;
};

/* Names of a module in a process, beside its file's: paths, or NULL. */
struct code_aliases {
	const char *
		/*
		 * a program: the name that it was started by; a library: its path in the loader's
		 * list
		 */
		link;
	const char *argument; /* a program's argv[0] */
};

struct code_dwarf;

/*
 * Called every so often by what takes long, with how far it is: `done` of `total` places, 0 of 0
 * where it is not known. What it returns other than 0 ends that, with this error.
 */
struct code_pulse {
	int (*beat)(size_t done, size_t total, void *data);
	void *data;
};

/* The state of a file's content: a file that is written over keeps its inode. */
struct code_version {
	uint64_t bytes;
	struct timespec written, changed;
};

struct code_file {
	struct code_pulse pulse;     /* the owner's; zeroed: none */
	struct code_aliases aliases; /* likewise; zeroed for a file of no process */
	char *path;		     /* as it was asked for */
	char *name; /* the module's short one: libc.so.6 is "libc", /usr/bin/psql "psql" */
	char *root; /* before the paths of debug files: "" or "/proc/PID/root" */
	int fd;
	void *image; /* in place of the fd: a copy of bytes out of memory */
	size_t image_bytes;
	uint64_t file_bytes;
	struct code_version version; /* when it was opened; zeroed for an image */
	Elf64_Ehdr header;
	struct code_segment *segments;
	size_t segment_count;
	struct code_section *sections;
	size_t section_count;
	uint8_t build_id[CODE_BUILD_ID_MAX];
	size_t build_id_bytes; /* 0: none */
	int is_vdso;
	/* set by who opened it: a separate debug file in the module's place, without code */
	int is_debug;
	int is_shared; /* other files share its debug information, and it has nothing else */
	struct code_file *debug;  /* the separate debug file; see code_file_debug() */
	struct code_file *packed; /* .gnu_debugdata, unpacked; see code_file_packed() */
	int debug_sought, packed_sought;
	void **contents;	  /* by section */
	uint64_t content_bytes;	  /* of all that were read */
	struct code_dwarf *dwarf; /* target/code/dwarf.h's */
};

/* Reads a process's memory: 0 and all bytes copied, or -errno. */
struct code_memory {
	int (*read)(void *data, uint64_t address, void *buffer, size_t bytes);
	void *data;
};

/*
 * Open the file at `path`. Returns 0, -errno, -WM_E_NOT_ELF, -WM_E_FOREIGN_ARCH. Close the file
 * with code_file_close(); *file is NULL after an error.
 */
int code_file_open(struct code_file **file, const char *path);

/* The same; with `is_shared`, dwz(1) may have made it, as a relocatable file. */
int code_file_open_as(struct code_file **file, const char *path, int is_shared);

/* Whether an open file still has that version; no: it was written or renamed since. */
int code_version_is(const struct code_version *version, int fd);

/*
 * Open the file that a process has mapped as the module whose ELF header is at `start` in it,
 * `path` by its map. This finds it through /proc/PID/map_files, /proc/PID/root or /proc/PID/exe, in
 * any mount namespace, and also if it was deleted. It copies "[vdso]" from memory. The file must be
 * the one that the process runs: same build id or, without one, same header. Returns as
 * code_file_open(); -WM_E_FILE_REPLACED when another file has taken its place, -ENOENT when it was
 * deleted and cannot be opened.
 */
int code_file_open_process(struct code_file **file, pid_t pid, uint64_t start, const char *path,
			   const struct code_memory *memory);

/*
 * Take bytes for a file; the copy is the file's own. `path` names it. As code_file_open().
 */
int code_file_open_image(struct code_file **file, const char *path, const void *image,
			 size_t bytes);

/* Call this now and then, while working on the file. Returns what the file's owner returns. */
int code_file_beat(const struct code_file *file, size_t done, size_t total);

/* Set a file's short name. 0 or -ENOMEM. */
int code_file_rename(struct code_file *file, const char *name);

/* NULL is let pass. */
void code_file_close(struct code_file *file);

/*
 * Copy bytes as they are in the file at an address; what the loader fills up with zeros is zeros.
 * 0, -EFAULT where the bytes lie in no segment, -errno.
 */
int code_file_read(const struct code_file *file, uint64_t address, void *buffer, size_t bytes);

/* The PT_LOAD segment that holds an address, or NULL. */
const struct code_segment *code_file_segment(const struct code_file *file, uint64_t address);

/*
 * Whether all of it is in one executable segment, and in the file itself or, for a debug file, in
 * its module.
 */
int code_file_is_text(const struct code_file *file, uint64_t address, uint64_t bytes);

/*
 * The section of a name; or that holds an address once loaded. NULL: none, or there is no section
 * table.
 */
const struct code_section *code_file_section(const struct code_file *file, const char *name);
const struct code_section *code_file_section_at(const struct code_file *file, uint64_t address);

/*
 * What .eh_frame says of the function around an address, as linked, and what reads the file for
 * cfi_row(). 0 or -ENOENT.
 */
int code_file_cfi(const struct code_file *file, uint64_t address, struct cfi_reader *reader,
		  struct cfi_function *function);

/* Whether code of Go is in it, whose stacks are too small for others: by its sections' names. */
int code_file_is_go(const struct code_file *file);

/*
 * A section's content; the file owns it, and a NUL follows it. 0, -ENOENT for one without content
 * or a compressed one, -WM_E_NOT_ELF, -EFBIG where all that are read would be more than
 * CODE_SECTION_MAX_BYTES, or than twice the file.
 */
int code_file_content(struct code_file *file, const struct code_section *section,
		      const void **content, size_t *bytes);

#define CODE_SECTION_MAX_BYTES (1ull << 31)

/*
 * The separate debug file: by build id, then by .gnu_debuglink, below /usr/lib/debug of the file's
 * own root and then of our root; then from a server, if that is allowed (target/code/fetch.h).
 * NULL: none fits.
 */
struct code_file *code_file_debug(struct code_file *file);

/*
 * The file that .gnu_debugaltlink names, with that build id: below root/usr/lib/debug, else by its
 * name, from `folder` on; then from a server. The caller closes it. NULL: none fits.
 */
struct code_file *code_file_shared(const char *root, const char *folder, const char *name,
				   const void *build_id, size_t build_id_bytes);

/* The symbols that .gnu_debugdata holds, as a file. NULL: none, or damaged. */
struct code_file *code_file_packed(struct code_file *file);

/*
 * The last part of a path up to ".so", or whole. Characters that a name can't have become '_'. In
 * name[bytes].
 */
void code_file_short_name(const char *path, char *name, size_t bytes);

#endif
