/* SPDX-License-Identifier: MIT */
#include "target/code/dwarf.h"

#include "base/array.h"
#include "base/sorted.h"

#include <dwarf.h>
#include <elfutils/libdwelf.h>
#include <endian.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LEVELS_MAX 128
#define NO_DWARF ((Dwarf *)-1) /* as libdw notes that it did not find a shared file */

/* For libraries that open files by names of their own choice: names that a container gives them. */

struct rooted {
	const char *root;
	void (*call)(void *data);
	void *data;
	int err;
};

/* A namespace of mounts: other folders may be mounted there, in the same root. */
static int is_other_space(const char *root)
{
	char space[64], its[64], ours[64];
	ssize_t bytes, other;

	snprintf(space, sizeof(space), "%.*s/ns/mnt", (int)(strlen(root) - strlen("/root")), root);
	bytes = readlink(space, its, sizeof(its));
	other = readlink("/proc/self/ns/mnt", ours, sizeof(ours));
	return bytes > 0 && (bytes != other || memcmp(its, ours, (size_t)bytes) != 0);
}

/* Whether names under a root "/proc/PID/root" lead elsewhere than our own. */
static int rooted_is_apart(const char *root)
{
	struct stat its, ours;

	if (!*root || stat(root, &its) || stat("/", &ours))
		return 0;
	return its.st_dev != ours.st_dev || its.st_ino != ours.st_ino || is_other_space(root);
}

static void *run(void *data)
{
	struct rooted *rooted = data;

	/* the root and the working folder become this thread's own */
	if (unshare(CLONE_FS) || chroot(rooted->root) || chdir("/"))
		rooted->err = -errno;
	else
		rooted->call(rooted->data);
	return NULL;
}

/*
 * Call something in a thread of its own, whose names begin in `root`; no link leads out of there.
 * Waits until it has ended. 0 or -errno: it was not called. It needs CAP_SYS_CHROOT.
 */
static int rooted_call(const char *root, void (*call)(void *data), void *data)
{
	struct rooted rooted = { .root = root, .call = call, .data = data };
	sigset_t all, before;
	pthread_t thread;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = -pthread_create(&thread, NULL, run, &rooted);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err)
		return err;
	pthread_join(thread, NULL);
	return rooted.err;
}

/*
 * Prelinking moves a module after its debug file was split off. The text's address shows by how
 * much.
 */
static int64_t bias_of(const struct code_file *file, const struct code_file *holder)
{
	const struct code_section *mine = code_file_section(file, ".text");
	const struct code_section *its = code_file_section(holder, ".text");

	return mine && its ? (int64_t)(mine->address - its->address) : 0;
}

static Elf *elf_of(const struct code_file *file)
{
	elf_version(EV_CURRENT);
	if (file->image)
		return elf_memory(file->image, file->file_bytes);
	/* Not ELF_C_READ_MMAP: see the head of target/code/dwarf.h. */
	return elf_begin(file->fd, ELF_C_READ, NULL);
}

/* ".debug_info", or as old compressed sections are called. */
static int has_info(const struct code_file *file)
{
	return code_file_section(file, ".debug_info") || code_file_section(file, ".zdebug_info");
}

static struct code_file *holder_of(struct code_file *file)
{
	struct code_file *debug;

	if (has_info(file))
		return file;
	debug = code_file_debug(file);
	return debug && has_info(debug) ? debug : NULL;
}

/* Of ".zdebug_info" and the like: "ZLIB", and how long it is unpacked, its highest byte first. */
static uint64_t old_unpacked(const struct code_file *holder, const struct code_section *section)
{
	uint8_t head[12];
	uint64_t bytes;

	if (holder->fd < 0 ||
	    pread(holder->fd, head, sizeof(head), (off_t)section->offset) != sizeof(head) ||
	    memcmp(head, "ZLIB", 4) != 0)
		return section->bytes;
	memcpy(&bytes, head + 4, sizeof(bytes));
	return be64toh(bytes);
}

/*
 * What libdw takes into memory at once. More than 32-bit offsets reach, and be it unpacked, is
 * forged.
 */
static int is_too_much(const struct code_file *holder)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < holder->section_count; i++) {
		const struct code_section *section = &holder->sections[i];
		uint64_t bytes = section->bytes;
		Elf64_Chdr packed;

		int is_old = !strncmp(section->name, ".zdebug_", 8);

		if ((strncmp(section->name, ".debug_", 7) != 0 && !is_old) ||
		    section->type == SHT_NOBITS)
			continue;
		if (is_old)
			bytes = old_unpacked(holder, section);
		if (section->flags & SHF_COMPRESSED && holder->fd >= 0 &&
		    pread(holder->fd, &packed, sizeof(packed), (off_t)section->offset) ==
			    sizeof(packed))
			bytes = packed.ch_size;
		if (bytes > UINT32_MAX - sum)
			return 1;
		sum += bytes;
	}
	return 0;
}

/*
 * libdw opens split files by the names that the file gives, and maps them into memory. A user who
 * can write the file could name a FIFO, or cut a file short. So root or this user must own it.
 */
static int is_trusted(const struct stat *stat)
{
	return (!stat->st_uid || stat->st_uid == geteuid()) &&
	       !(stat->st_mode & (S_IWGRP | S_IWOTH));
}

static int is_holder_trusted(const struct code_file *holder)
{
	struct stat stat;

	return holder->fd >= 0 && !fstat(holder->fd, &stat) && is_trusted(&stat);
}

/* As libdw finds the folder of a file that it has open. */
static int folder_read(char folder[PATH_MAX], int fd)
{
	char link[32], *slash;
	ssize_t got;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	got = readlink(link, folder, PATH_MAX - 1);
	folder[got > 0 ? got : 0] = 0;
	slash = strrchr(folder, '/');
	if (slash)
		*slash = 0;
	return slash != NULL;
}

/*
 * The file that a module shares debug information with (dwz(1)). libdw would open whatever
 * .gnu_debugaltlink names, a FIFO too, and map it: who cuts the file short would end us.
 */
static void shared_open(struct code_dwarf *dwarf, const char *root)
{
	const void *build_id;
	const char *name;
	ssize_t bytes = dwelf_dwarf_gnu_debugaltlink(dwarf->dwarf, &name, &build_id);

	if (bytes <= 0)
		return;
	dwarf->shared = code_file_shared(root, dwarf->folder, name, build_id, (size_t)bytes);
	if (!dwarf->shared && *root)
		dwarf->shared = code_file_shared("", dwarf->folder, name, build_id, (size_t)bytes);
	if (dwarf->shared && !is_too_much(dwarf->shared))
		dwarf->shared_elf = elf_of(dwarf->shared);
	if (dwarf->shared_elf)
		dwarf->shared_dwarf = dwarf_begin_elf(dwarf->shared_elf, DWARF_C_READ, NULL);
	if (dwarf->shared_dwarf)
		dwarf_setalt(dwarf->shared_dwarf, NO_DWARF);
	dwarf_setalt(dwarf->dwarf, dwarf->shared_dwarf ? dwarf->shared_dwarf : NO_DWARF);
}

static const char *split_name(Dwarf_Die *die)
{
	Dwarf_Attribute attribute;

	if (!dwarf_attr(die, DW_AT_dwo_name, &attribute) &&
	    !dwarf_attr(die, DW_AT_GNU_dwo_name, &attribute))
		return NULL;
	return dwarf_formstring(&attribute);
}

/* The folder where the compiler made the unit's file. */
static int split_path(Dwarf_Die *die, char *path, size_t room)
{
	const char *name = split_name(die), *folder = "";
	Dwarf_Attribute attribute;

	if (!name)
		return 0;
	if (*name != '/' && dwarf_attr(die, DW_AT_comp_dir, &attribute))
		folder = dwarf_formstring(&attribute);
	snprintf(path, room, "%s%s%s", folder ? folder : "", folder && *folder ? "/" : "", name);
	return 1;
}

enum split { SPLIT_ABSENT, SPLIT_PLAIN, SPLIT_OTHER };

/* Opening a file that is not plain may block. Another user may truncate a mapped file. */
static enum split split_kind(const char *path)
{
	struct stat stat_;

	if (stat(path, &stat_))
		return errno == ENOENT || errno == ENOTDIR ? SPLIT_ABSENT : SPLIT_OTHER;
	return S_ISREG(stat_.st_mode) && is_trusted(&stat_) ? SPLIT_PLAIN : SPLIT_OTHER;
}

/*
 * libdw opens the one beside the program, else the one where the compiler made it. Each that exists
 * must be a plain file.
 */
static int may_open_split(const struct code_dwarf *dwarf, Dwarf_Die *die)
{
	char made[PATH_MAX], beside[2 * PATH_MAX];
	enum split first, second;

	if (!dwarf->may_open || !split_path(die, made, sizeof(made)))
		return 0;
	snprintf(beside, sizeof(beside), "%s/%s", dwarf->folder, split_name(die));
	first = *split_name(die) == '/' ? SPLIT_ABSENT : split_kind(beside);
	second = split_kind(made);
	return first != SPLIT_OTHER && second != SPLIT_OTHER &&
	       (first == SPLIT_PLAIN || second == SPLIT_PLAIN);
}

/* libdw keeps a unit's split file open. So all are opened here, while our root is a container's. */
static void open_all(void *data)
{
	struct code_dwarf *dwarf = data;
	Dwarf_CU *unit = NULL;
	Dwarf_Die die, split;
	uint8_t type;

	while (!dwarf_get_units(dwarf->dwarf, unit, &unit, NULL, &type, &die, NULL)) {
		if (type != DW_UT_skeleton || !may_open_split(dwarf, &die) ||
		    dwarf_cu_info(unit, NULL, NULL, NULL, &split, NULL, NULL, NULL))
			continue;
		if (array_grow(&dwarf->opened, &dwarf->opened_room, dwarf->opened_count + 1,
			       sizeof(*dwarf->opened)))
			return;
		dwarf->opened[dwarf->opened_count++] = dwarf_dieoffset(&die);
	}
}

struct code_dwarf *code_dwarf_of(struct code_file *file)
{
	struct code_dwarf *dwarf = file->dwarf;
	struct code_file *holder;

	if (dwarf)
		return dwarf->dwarf ? dwarf : NULL;
	dwarf = file->dwarf = calloc(1, sizeof(*dwarf));
	holder = dwarf ? holder_of(file) : NULL;
	if (!holder || is_too_much(holder))
		return NULL;
	dwarf->elf = elf_of(holder);
	dwarf->dwarf = dwarf->elf ? dwarf_begin_elf(dwarf->elf, DWARF_C_READ, NULL) : NULL;
	dwarf->bias = bias_of(file, holder);
	dwarf->may_open = folder_read(dwarf->folder, holder->fd) && is_holder_trusted(holder);
	if (dwarf->dwarf)
		shared_open(dwarf, file->root);
	if (dwarf->dwarf && dwarf->may_open && rooted_is_apart(file->root))
		(void)rooted_call(file->root, open_all, dwarf); /* else they are missing */
	return dwarf->dwarf ? dwarf : NULL;
}

static int was_opened(const struct code_dwarf *dwarf, Dwarf_Off offset)
{
	size_t at = sorted_below(dwarf->opened, dwarf->opened_count, sizeof(*dwarf->opened), 0,
				 offset);

	return at < dwarf->opened_count && dwarf->opened[at] == offset;
}

/* All of the module's units in one file, which libdw reads only since elfutils 0.191. */
static void package_path(const struct code_file *file, char *path, size_t room)
{
	snprintf(path, room, "%s%s.dwp", file->root, file->path);
}

void code_dwarf_split(const struct code_file *file, Dwarf_Die *unit)
{
	Dwarf_Die split;
	uint8_t type;

	if (dwarf_cu_info(unit->cu, NULL, &type, NULL, NULL, NULL, NULL, NULL) ||
	    type != DW_UT_skeleton || !file->dwarf)
		return;
	if ((was_opened(file->dwarf, dwarf_dieoffset(unit)) || may_open_split(file->dwarf, unit)) &&
	    !dwarf_cu_info(unit->cu, NULL, NULL, NULL, &split, NULL, NULL, NULL) && split.addr)
		*unit = split;
}

int code_dwarf_unit(const struct code_file *file, Dwarf *dwarf, Dwarf_CU **unit, Dwarf_Die *die)
{
	uint8_t type;

	if (dwarf_get_units(dwarf, *unit, unit, NULL, &type, die, NULL))
		return 1;
	if (type == DW_UT_skeleton)
		code_dwarf_split(file, die);
	return 0;
}

int code_dwarf_missing(struct code_file *file, char *words, size_t room)
{
	struct code_dwarf *dwarf = code_dwarf_of(file);
	char path[PATH_MAX], package[PATH_MAX];
	int is_package;
	Dwarf_CU *unit = NULL;
	Dwarf_Die die;

	while (dwarf && !code_dwarf_unit(file, dwarf->dwarf, &unit, &die)) {
		if (!split_path(&die, path, sizeof(path)) || dwarf_haschildren(&die))
			continue;
		package_path(file, package, sizeof(package));
		is_package = split_kind(path) == SPLIT_ABSENT &&
			     split_kind(package) != SPLIT_ABSENT;
		snprintf(words, room, "; %s, with debug information, was not read%s",
			 is_package ? package : path,
			 is_package ? ": keep the .dwo files"
			 : split_kind(path) == SPLIT_OTHER
				 ? ": it must be a file that root or this user alone can write to"
				 : "");
		return 1;
	}
	return 0;
}

int code_dwarf_next(Dwarf_Die *die)
{
	Dwarf_Die next;

	if (dwarf_siblingof(die, &next) || dwarf_dieoffset(&next) <= dwarf_dieoffset(die))
		return -ENOENT;
	*die = next;
	return 0;
}

/* Where a function begins: of one in several pieces, the first. */
static int entry_of(Dwarf_Die *die, Dwarf_Addr *entry)
{
	Dwarf_Addr base, end;

	if (!dwarf_lowpc(die, entry))
		return 0;
	return dwarf_ranges(die, 0, &base, entry, &end) > 0 ? 0 : -ENOENT;
}

static int function_add(struct code_dwarf *dwarf, Dwarf_Die *die)
{
	Dwarf_Addr entry;

	if (entry_of(die, &entry))
		return 0;
	if (array_grow(&dwarf->functions, &dwarf->function_room, dwarf->function_count + 1,
		       sizeof(*dwarf->functions)))
		return -ENOMEM;
	dwarf->functions[dwarf->function_count++] = (struct code_dwarf_entry){
		.address = entry + (uint64_t)dwarf->bias, .die = *die
	};
	return 0;
}

/* Whether descriptions of functions may be nested in it. */
static int holds_functions(Dwarf_Die *die)
{
	switch (dwarf_tag(die)) {
	case DW_TAG_subprogram:
	case DW_TAG_lexical_block:
	case DW_TAG_inlined_subroutine:
	case DW_TAG_namespace:
	case DW_TAG_module:
	case DW_TAG_class_type:
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
		return 1;
	default:
		return 0;
	}
}

/*
 * dwarf_getfuncs() recurses for each level of nesting, and a forged unit has as many levels as
 * bytes. Continuing behind a level reads all of it again, so a bound on levels bounds the time too.
 * No compiler nests deeper: the rest of such a unit is left out.
 */
static int unit_read(struct code_dwarf *dwarf, const Dwarf_Die *unit)
{
	Dwarf_Die levels[LEVELS_MAX];
	int level, err = 0;

	levels[0] = *unit;
	if (dwarf_child(&levels[0], &levels[1]))
		return 0;
	for (level = 1; !err && level > 0;) {
		Dwarf_Die *die = &levels[level];

		if (dwarf_tag(die) == DW_TAG_subprogram)
			err = function_add(dwarf, die);
		if (holds_functions(die)) {
			if (level + 1 == LEVELS_MAX)
				break;
			if (!dwarf_child(die, &levels[level + 1])) {
				level++;
				continue;
			}
		}
		while (level > 0 && dwarf_siblingof(&levels[level], &levels[level]))
			level--;
	}
	return err;
}

static int by_address(const void *one, const void *other)
{
	const struct code_dwarf_entry *a = one, *b = other;

	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	return a->die.addr < b->die.addr ? -1 : a->die.addr > b->die.addr;
}

static void functions_read(const struct code_file *file, struct code_dwarf *dwarf)
{
	Dwarf_CU *unit = NULL;
	Dwarf_Die die;

	dwarf->has_functions = 1;
	while (!code_dwarf_unit(file, dwarf->dwarf, &unit, &die))
		if ((dwarf_tag(&die) == DW_TAG_compile_unit ||
		     dwarf_tag(&die) == DW_TAG_partial_unit) &&
		    unit_read(dwarf, &die))
			break;
	if (dwarf->function_count)
		qsort(dwarf->functions, dwarf->function_count, sizeof(*dwarf->functions),
		      by_address);
}

const char *code_dwarf_linkage(Dwarf_Die *die)
{
	Dwarf_Attribute attribute;

	if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) ||
	    dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute))
		return dwarf_formstring(&attribute);
	return NULL;
}

int code_dwarf_concrete(Dwarf_Die *function, Dwarf_Die *parameter, Dwarf_Die *concrete)
{
	Dwarf_Attribute attribute;
	Dwarf_Die origin;

	if (dwarf_child(function, concrete))
		return -ENOENT;
	do {
		if (dwarf_attr(concrete, DW_AT_abstract_origin, &attribute) &&
		    dwarf_formref_die(&attribute, &origin) &&
		    dwarf_dieoffset(&origin) == dwarf_dieoffset(parameter))
			return 0;
	} while (!code_dwarf_next(concrete));
	return -ENOENT;
}

int code_dwarf_is_expression(Dwarf_Attribute *attribute)
{
	switch (dwarf_whatform(attribute)) {
	case DW_FORM_exprloc:
	case DW_FORM_block:
	case DW_FORM_block1:
	case DW_FORM_block2:
	case DW_FORM_block4:
		return 1;
	default:
		return 0;
	}
}

int code_dwarf_source_is(const char *path, const char *wanted)
{
	size_t bytes = strlen(path), ends;

	while (wanted[0] == '.' && wanted[1] == '/')
		for (wanted++; *wanted == '/'; wanted++)
			;
	ends = strlen(wanted);
	return bytes >= ends && !strcmp(path + bytes - ends, wanted) &&
	       (bytes == ends || path[bytes - ends - 1] == '/');
}

static int has_name(Dwarf_Die *die, const char *name)
{
	const char *linkage = code_dwarf_linkage(die);

	if (!linkage)
		linkage = dwarf_diename(die);
	return linkage && !strncmp(name, linkage, strlen(linkage)) &&
	       (!name[strlen(linkage)] || name[strlen(linkage)] == '.');
}

int code_dwarf_function(struct code_file *file, uint64_t address, const char *name, Dwarf_Die *die)
{
	struct code_dwarf *dwarf = code_dwarf_of(file);
	size_t low, count = 0;

	if (!dwarf)
		return -ENOENT;
	if (!dwarf->has_functions)
		functions_read(file, dwarf);
	low = sorted_below(dwarf->functions, dwarf->function_count, sizeof(*dwarf->functions),
			   offsetof(struct code_dwarf_entry, address), address);
	while (low + count < dwarf->function_count &&
	       dwarf->functions[low + count].address == address)
		count++;
	for (size_t i = 0; i < count; i++) {
		*die = dwarf->functions[low + i].die;
		if (count == 1 || has_name(die, name))
			return 0;
	}
	return -ENOENT;
}

int code_dwarf_is_apart(const char *path, const char *folder)
{
	size_t bytes = strlen(folder);

	return path[0] != '/' && (strncmp(path, folder, bytes) != 0 || path[bytes] != '/');
}

/* Not by dwarf_decl_file(), which aborts on units that have a file of their own (libdw 0.188). */
void code_dwarf_declared(Dwarf_Die *die, struct code_declared *declared)
{
	Dwarf_Attribute attribute;
	Dwarf_Files *files;
	const char *source = NULL;
	Dwarf_Word number;
	Dwarf_Die unit;
	size_t count;
	int has_unit;

	/* The number is of the attribute's unit: an inlined function may come from another. */
	has_unit = dwarf_attr_integrate(die, DW_AT_decl_file, &attribute) &&
		   !dwarf_formudata(&attribute, &number) &&
		   dwarf_cu_die(attribute.cu, &unit, NULL, NULL, NULL, NULL, NULL, NULL);
	if (has_unit && !dwarf_getsrcfiles(&unit, &files, &count) && number < count)
		source = dwarf_filesrc(files, number, NULL, NULL);
	if (!source && dwarf_diecu(die, &unit, NULL, NULL))
		source = dwarf_diename(&unit);
	*declared = (struct code_declared){ .source = source ? source : "" };
	if (source) {
		declared->unit = unit.cu;
		declared->folder = dwarf_formstring(dwarf_attr(&unit, DW_AT_comp_dir, &attribute));
	}
	if (!dwarf_formudata(dwarf_attr_integrate(die, DW_AT_decl_line, &attribute), &number))
		declared->line = (unsigned int)number;
}

const char *code_dwarf_folder(struct code_file *file, const Dwarf_CU *unit)
{
	struct code_dwarf *dwarf = code_dwarf_of(file);
	Dwarf_Die skeleton, split;
	Dwarf_Attribute attribute;
	Dwarf_CU *at = NULL;
	uint8_t type;

	if (!dwarf || !unit || unit == dwarf->split)
		return dwarf && unit ? dwarf->split_folder : NULL;
	dwarf->split = unit;
	dwarf->split_folder = NULL;
	while (!dwarf_get_units(dwarf->dwarf, at, &at, NULL, &type, &skeleton, NULL)) {
		split = skeleton;
		if (type == DW_UT_skeleton)
			code_dwarf_split(file, &split);
		if (split.cu == unit)
			dwarf->split_folder = dwarf_formstring(
				dwarf_attr(&skeleton, DW_AT_comp_dir, &attribute));
		if (split.cu == unit)
			break;
	}
	return dwarf->split_folder;
}

void code_dwarf_close(struct code_dwarf *dwarf)
{
	if (!dwarf)
		return;
	code_enumerations_release(&dwarf->enumerations);
	if (dwarf->dwarf)
		dwarf_end(dwarf->dwarf);
	if (dwarf->elf)
		elf_end(dwarf->elf);
	if (dwarf->shared_dwarf)
		dwarf_end(dwarf->shared_dwarf);
	if (dwarf->shared_elf)
		elf_end(dwarf->shared_elf);
	code_file_close(dwarf->shared);
	free(dwarf->functions);
	free(dwarf->opened);
	free(dwarf);
}
