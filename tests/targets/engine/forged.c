/* SPDX-License-Identifier: MIT */
/*
 * A recorded program that writes into the channel that a process of another's is its child, and
 * asks for something: forged PID exec, or forged PID lead (tests/engine_forged.sh). Prints the
 * answer, and waits for input.
 */
#include "abi/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The channel's mapping from its first byte on. */
static struct engine_channel *find(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start, end, offset;
	char line[512], prot[8];

	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, "waymark-trail") && strstr(line, "rw-s") &&
		    sscanf(line, "%lx-%lx %7s %lx", &start, &end, prot, &offset) == 4 && !offset)
			return (struct engine_channel *)start;
	return NULL;
}

static struct engine_channel *page_of(struct engine_channel *channel, unsigned int number)
{
	return (struct engine_channel *)(void *)((char *)channel + number * ENGINE_GUARD_BYTES);
}

static struct engine_channel *page_take(struct engine_channel *channel)
{
	for (unsigned int n = 1; n < channel->pages; n++) {
		struct engine_channel *page = page_of(channel, n);
		uint32_t use = ENGINE_USE_FREE;

		if (__atomic_compare_exchange_n(&page->use, &use, ENGINE_USE_TAKEN, 0,
						__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			return page;
	}
	exit(3);
}

int main(int argc, char **argv)
{
	struct engine_channel *channel = find(), *page;
	uint32_t pid = argc > 2 ? (uint32_t)atoi(argv[1]) : 0, asked, answer, *ask;

	if (!channel || !pid)
		return 2;
	page = page_take(channel);
	page->places.bytes = UINT64_MAX; /* no code of its is the program's */
	page->places.own_signals = 1;
	page->born = ((page->born >> 32) + 1) << 32 | pid;
	page->parent = 0;
	page->ask_tid = pid;
	ask = strcmp(argv[2], "lead") ? &page->ask : &page->lead;
	asked = strcmp(argv[2], "lead") ? (uint32_t)ENGINE_ASK_EXEC : (uint32_t)ENGINE_LEAD_ASKED;
	*ask = asked;
	__atomic_store_n(&page->use, ENGINE_USE_MADE, __ATOMIC_SEQ_CST);
	while ((answer = __atomic_load_n(ask, __ATOMIC_SEQ_CST)) == asked ||
	       (ask == &page->lead && answer == ENGINE_LEAD_RUNS)) {
		__atomic_add_fetch(&channel->wanted_log, 1, __ATOMIC_SEQ_CST);
		usleep(1000);
	}
	printf("%u\n", answer);
	fflush(stdout);
	getchar();
	return 0;
}
