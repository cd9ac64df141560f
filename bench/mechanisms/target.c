/* SPDX-License-Identifier: MIT */
#include "bench/mechanisms/target.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const struct target_body *const bodies[TARGET_WAYS] = {
	[TARGET_NONE] = &target_none, [TARGET_MARKER] = &target_marker,
	[TARGET_FLAG] = &target_flag, [TARGET_USDT] = &target_usdt,
	[TARGET_NOP5] = &target_nop5, [TARGET_FILLER] = &target_filler,
};

struct place {
	uintptr_t address;
	uint64_t offset;
};

/* The first module is the program itself. */
static int find_offset(struct dl_phdr_info *info, size_t size, void *data)
{
	struct place *place = data;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type == PT_LOAD && place->address >= start &&
		    place->address < start + segment->p_filesz)
			place->offset = place->address - start + segment->p_offset;
	}
	return 1;
}

static uint64_t offset_of(const void *address)
{
	struct place place = { .address = (uintptr_t)address };

	dl_iterate_phdr(find_offset, &place);
	return place.offset;
}

static uint64_t bytes_of(target_leaf_fn *leaf)
{
	const ElfW(Sym) * symbol;
	Dl_info info;

	if (!dladdr1((void *)leaf, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol)
		return 0;
	return symbol->st_size;
}

/* The leaf's own code is the same in all: the bytes before it are the mark. */
static int64_t hot_bytes_of(target_leaf_fn *leaf)
{
	target_leaf_fn *plain = target_none.leaves[0];
	const char *start = (const char *)(uintptr_t)leaf;
	const char *own = memmem(start, bytes_of(leaf), (void *)plain, bytes_of(plain));

	return own && bytes_of(plain) ? own - start : -1;
}

static int say_hello(int fd)
{
	struct target_hello hello = { 0 };

	for (int way = 0; way < TARGET_WAYS; way++) {
		const struct target_body *body = bodies[way];

		hello.leaves[way] = (struct target_leaf){
			.hot_bytes = hot_bytes_of(body->leaves[0]),
			.file_offset = offset_of((void *)body->leaves[0]),
			.address = (uintptr_t)body->leaves[0],
		};
	}
	return write(fd, &hello, sizeof(hello)) == sizeof(hello);
}

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

__attribute__((noinline, aligned(64))) static uint64_t loop(target_leaf_fn *leaf, uint64_t count)
{
	uint64_t last = 0;

	for (uint64_t i = 0; i < count; i++)
		last = leaf(i, last);
	return last;
}

/* The last CPU that we may use, as little else runs there as on any. */
static void pin(void)
{
	cpu_set_t allowed, one;

	sched_getaffinity(0, sizeof(allowed), &allowed);
	for (int cpu = CPU_SETSIZE - 1; cpu >= 0; cpu--) {
		if (!CPU_ISSET(cpu, &allowed))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
		return;
	}
}

int main(int argc, char **argv)
{
	int fd = argc == 2 ? atoi(argv[1]) : -1;
	struct target_request request;
	static volatile uint64_t sink;

	if (fd < 0 || !say_hello(fd))
		return 2;
	pin();
	while (read(fd, &request, sizeof(request)) == sizeof(request)) {
		target_leaf_fn *leaf;
		struct target_answer answer;
		uint64_t start;

		if (request.way >= TARGET_WAYS || request.layout >= TARGET_LAYOUTS)
			return 2;
		leaf = bodies[request.way]->leaves[request.layout];
		start = cpu_ns();
		sink = loop(leaf, request.count);
		answer.ns = (double)(cpu_ns() - start) / (double)request.count;
		if (write(fd, &answer, sizeof(answer)) != sizeof(answer))
			return 2;
	}
	(void)sink;
	return 0;
}
