/* SPDX-License-Identifier: MIT */
#include "target/process/glibc.h"
#include "base/elf.h"
#include "base/name_match.h"
#include "target/process/target.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>

#define MODULES_MAX 8192
#define MODULE_MAPS_MAX 256
#define AGENT_NAME "libwaymark-agent.so"
#define LOADER_NAME "ld-linux"
#define RTLD_GLOBAL_BYTES 4096 /* of _rtld_global, up to its locks */
/* What glibc keeps free for modules that come later, at its default and with room to spare. */
#define TLS_SURPLUS_BYTES 16384
/* malloc.c's internal functions come before its first exported one. */
#define MALLOC_BEFORE_BYTES 0x8000
#define MALLOC_BEHIND_BYTES 0x1000

struct reader {
	const struct maps *maps;
	int mem_fd;
	struct glibc *glibc;
	struct detail detail;
};

static int memory_read(const struct reader *reader, uint64_t address, void *bytes, size_t count)
{
	ssize_t got = pread(reader->mem_fd, bytes, count, (off_t)address);

	if (got < 0)
		return -errno;
	return got == (ssize_t)count ? 0 : -ESRCH;
}

/* The dynamic loader's header. A program that was started as its argument has no AT_BASE. */
static uint64_t loader_address(const struct reader *reader, pid_t tid)
{
	uint64_t address = 0;

	target_auxv(tid, AT_BASE, &address);
	for (size_t i = 0; i < reader->maps->count && !address; i++) {
		const struct map *map = &reader->maps->list[i];

		if (!map->offset && map->inode && !strncmp(name_last_part(map->path), "ld-", 3))
			address = map->start;
	}
	return address;
}

/* The first mapping of the file that is mapped at an address: the one with its header. */
static const struct map *module_map(const struct reader *reader, uint64_t address)
{
	const struct map *map = maps_find(reader->maps, address);
	uint64_t inode = map ? map->inode : 0;

	for (int i = 0; inode && i < MODULE_MAPS_MAX; i++, map--) {
		if (map->inode == inode && !map->offset)
			return map;
		if (map == reader->maps->list)
			break;
	}
	return NULL;
}

static int symbols_read(struct reader *reader, const struct elf *libc)
{
	struct glibc *glibc = reader->glibc;
	const struct {
		const char *name;
		uint64_t *address;
	} wanted[] = {
		{ "pthread_attr_init", &glibc->attr_init },
		{ "pthread_attr_setdetachstate", &glibc->attr_detach },
		{ "pthread_attr_setstacksize", &glibc->attr_stack },
		{ "pthread_create", &glibc->create },
		{ "dlopen", &glibc->dlopen },
		{ "dlsym", &glibc->dlsym },
		{ "dlerror", &glibc->dlerror },
		{ "__errno_location", &glibc->errno_at },
	};

	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		int err = elf_symbol(libc, wanted[i].name, wanted[i].address);

		/* before 2.34 threads and dlopen() were libraries of their own */
		if (err == -ENOENT)
			return detail_set(reader->detail, -WM_E_FOREIGN_LIBC,
					  "its C library has no %s()", wanted[i].name);
		if (err)
			return err;
		*wanted[i].address += libc->base;
	}
	return 0;
}

static void malloc_bounds(struct glibc *glibc, const struct elf *libc)
{
	static const char *const names[] = { "malloc",	 "free",	"calloc",  "realloc",
					     "memalign", "malloc_trim", "mallopt", "mallinfo2" };

	glibc->malloc_low = UINT64_MAX;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		uint64_t at;

		if (elf_symbol(libc, names[i], &at))
			continue;
		at += libc->base;
		if (at < glibc->malloc_low)
			glibc->malloc_low = at;
		if (at > glibc->malloc_high)
			glibc->malloc_high = at;
	}
	glibc->malloc_low -= MALLOC_BEFORE_BYTES;
	glibc->malloc_high += MALLOC_BEHIND_BYTES;
}

static int libc_read(struct reader *reader, const struct elf *libc)
{
	const Elf64_Phdr *tls = elf_segment(libc, PT_TLS);
	int err = symbols_read(reader, libc);

	if (err)
		return err;
	malloc_bounds(reader->glibc, libc);
	if (tls && !elf_symbol(libc, "errno", &reader->glibc->errno_offset))
		reader->glibc->tls_words = tls->p_memsz / sizeof(uint64_t);
	return 0;
}

static int is_libc(const char *name)
{
	return !strncmp(name, "libc.so.6", 9) || !strncmp(name, "libc-2.", 7);
}

/*
 * The name that the loader knows the agent by; the memory map has it as we see it, who may be
 * elsewhere.
 */
static void agent_name(struct reader *reader, uint64_t name, const struct map *map)
{
	char *path = reader->glibc->agent_path;
	size_t room = sizeof(reader->glibc->agent_path);
	ssize_t got = pread(reader->mem_fd, path, room, (off_t)name);

	if (got <= 0 || path[0] != '/' || !memchr(path, 0, (size_t)got))
		snprintf(path, room, "%s", map->path);
}

/* struct link_map is public in its first five members only. */
struct module_link {
	uint64_t base, name, dynamic, next, previous;
};

/* What one loaded module adds. Its file's name is as the memory map has it. */
static int module_read(struct reader *reader, const struct module_link *module)
{
	const struct map *map = module_map(reader, module->dynamic);
	const Elf64_Phdr *tls;
	uint64_t address;
	struct elf elf;
	int err, first = !reader->glibc->modules++; /* of the list: the program itself */

	if (!map)
		return 0; /* the vdso, or one that some other loader brought */
	err = elf_open_memory(&elf, reader->mem_fd, map->start);
	if (!err && first && elf.header.e_entry)
		reader->glibc->entry = elf.base + elf.header.e_entry;
	tls = err ? NULL : elf_segment(&elf, PT_TLS);
	if (tls)
		reader->glibc->tls_bytes += tls->p_memsz + tls->p_align;
	if (!err && is_libc(name_last_part(map->path)))
		err = reader->glibc->create ? 0 : libc_read(reader, &elf);
	else if (!err && strncmp(name_last_part(map->path), LOADER_NAME, strlen(LOADER_NAME)))
		reader->glibc->has_other_malloc |= !elf_symbol(&elf, "malloc", &address) ||
						   !elf_symbol(&elf, "calloc", &address);
	/*
	 * pthread_create() calls TSan's calloc(), which crashes in a thread that TSan did not start
	 */
	if (!err && !elf_symbol(&elf, "__tsan_init", &address))
		err = detail_set(reader->detail, -WM_E_THREAD_SANITIZER, "%s",
				 name_last_part(map->path));
	if (!strncmp(name_last_part(map->path), AGENT_NAME, strlen(AGENT_NAME)))
		agent_name(reader, module->name, map);
	elf_release(&elf);
	return err == -WM_E_NOT_ELF ? 0 : err;
}

static int modules_read(struct reader *reader, uint64_t first)
{
	uint64_t at = first;

	for (unsigned int i = 0; at && i < MODULES_MAX; i++) {
		struct module_link module;
		int err = memory_read(reader, at, &module, sizeof(module));

		if (!err)
			err = module_read(reader, &module);
		if (err)
			return err;
		at = module.next;
	}
	return 0;
}

/*
 * Whether the program is up, by the loader's own state: its list exists, and it is not changing it.
 * When the list first becomes consistent, all modules are relocated and libc is ready for threads;
 * but the loader then works for some more moments (target/process/inject.h).
 */
static int debug_read(struct reader *reader, const struct elf *loader, uint64_t *first)
{
	struct r_debug debug;
	uint64_t at;
	int err = elf_symbol(loader, "_r_debug", &at);

	if (err == -ENOENT)
		return detail_set(reader->detail, -WM_E_FOREIGN_LIBC, "its loader is not glibc's");
	if (!err)
		err = memory_read(reader, loader->base + at, &debug, sizeof(debug));
	if (err)
		return err;
	if (!debug.r_version || !debug.r_map || debug.r_state != RT_CONSISTENT)
		return detail_set(reader->detail, -EAGAIN, "its dynamic loader is at work");
	*first = (uint64_t)debug.r_map;
	return 0;
}

static int is_recursive_mutex(const unsigned char *at)
{
	struct __pthread_mutex_s mutex;

	memcpy(&mutex, at, sizeof(mutex));
	return mutex.__kind == PTHREAD_MUTEX_RECURSIVE_NP && !mutex.__spins &&
	       !mutex.__list.__prev && !mutex.__list.__next;
}

/*
 * dl_load_tls_lock of glibc 2.35 and later: the last of three recursive mutexes side by side in the
 * loader's variables. 0: not found.
 */
static uint64_t tls_lock_find(const struct reader *reader, const struct elf *loader)
{
	unsigned char bytes[RTLD_GLOBAL_BYTES];
	const size_t each = sizeof(struct __pthread_mutex_s);
	uint64_t start;

	if (elf_symbol(loader, "_rtld_global", &start) ||
	    memory_read(reader, loader->base + start, bytes, sizeof(bytes)))
		return 0;
	for (size_t at = 0; at + 3 * each <= sizeof(bytes); at += 8)
		if (is_recursive_mutex(bytes + at) && is_recursive_mutex(bytes + at + each) &&
		    is_recursive_mutex(bytes + at + 2 * each))
			return loader->base + start + at + 2 * each;
	return 0;
}

int glibc_read(struct glibc *glibc, pid_t tid, const struct maps *maps, int mem_fd,
	       struct detail detail)
{
	struct reader reader = { maps, mem_fd, glibc, detail };
	uint64_t first = 0, address;
	struct elf loader;
	int err;

	*glibc = (struct glibc){ .tls_bytes = TLS_SURPLUS_BYTES };
	address = loader_address(&reader, tid);
	if (!address)
		return detail_set(detail, -WM_E_FOREIGN_LIBC, "it has no dynamic loader");
	err = elf_open_memory(&loader, mem_fd, address);
	if (!err)
		err = debug_read(&reader, &loader, &first);
	if (!err)
		glibc->loader_entry = loader.base + loader.header.e_entry;
	if (!err && !elf_symbol(&loader, "_dl_allocate_tls_init", &glibc->tls_init))
		glibc->tls_init += loader.base;
	if (!err)
		glibc->tls_lock = tls_lock_find(&reader, &loader);
	elf_release(&loader);
	if (!err)
		err = modules_read(&reader, first);
	if (!err && !glibc->create)
		err = detail_set(detail, -WM_E_FOREIGN_LIBC, "it has not loaded libc.so.6");
	return err;
}
