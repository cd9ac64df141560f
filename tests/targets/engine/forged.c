/* SPDX-License-Identifier: MIT */
/*
 * A recorded program that writes into its channel what no engine would, of a process that is
 * not its own (tests/engine_forged.sh):
 *
 * forged PID exec: a thread of its own that is about to execute a program
 * forged PID trace: that it is about to trace it
 * forged PID child, forged PID borrows: its child, by fork(2) or by vfork(2)
 * forged PID segments: numbers of its segments that no thread reaches
 * forged 0 signal: what `child` does, with a process that it reads from its input, and which has a
 * memfd as a child makes it; then that it is about to trace it
 * forged PID places: where its threads are to be led; it waits until it is recorded
 *
 * Prints the answer, and waits for input.
 */
#include "abi/engine.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define POISON UINT64_C(0x414141414000)
#define COUNT 77u /* of the child */

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

static uint32_t answer_to(struct engine_channel *channel, const uint32_t *word, uint32_t asked)
{
	uint32_t answer;

	while ((answer = __atomic_load_n(word, __ATOMIC_SEQ_CST)) == asked) {
		__atomic_add_fetch(&channel->ready_count, 1, __ATOMIC_SEQ_CST);
		usleep(1000);
	}
	return answer;
}

static uint32_t child(struct engine_channel *channel, uint32_t pid, int borrows)
{
	struct engine_child *entry = &channel->children[ENGINE_CHILDREN - 1];

	entry->first_id = !borrows;
	entry->born = (uint64_t)COUNT << 32 | pid;
	entry->ask = borrows ? (uint32_t)ENGINE_ASK_CHILD : (uint32_t)ENGINE_ASK_NOTHING;
	__atomic_store_n(&entry->use, ENGINE_USE_MADE, __ATOMIC_SEQ_CST);
	return answer_to(channel, &entry->use, ENGINE_USE_MADE);
}

static uint32_t trace(struct engine_channel *channel, uint32_t pid)
{
	channel->trace_tid = pid;
	__atomic_store_n(&channel->trace, ENGINE_TRACE_ASKED, __ATOMIC_SEQ_CST);
	return answer_to(channel, &channel->trace, ENGINE_TRACE_ASKED);
}

static uint32_t have_signalled(struct engine_channel *channel)
{
	struct engine_channel *own;
	char name[64];
	uint32_t pid;
	int fd;

	snprintf(name, sizeof(name), ENGINE_CHANNEL_NAME "-%d-%u", (int)getpid(), COUNT);
	fd = memfd_create(name, MFD_ALLOW_SEALING);
	printf("/proc/%d/fd/%d\n", (int)getpid(), fd);
	fflush(stdout);
	if (scanf("%u", &pid) != 1)
		return UINT32_MAX;
	child(channel, pid, 0);
	own = mmap(NULL, sizeof(*own), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (lseek(fd, 0, SEEK_END) > 0 && own != MAP_FAILED)
		__atomic_store_n(&own->state, ENGINE_RUNS, __ATOMIC_SEQ_CST);
	return trace(channel, pid);
}

static uint32_t segments(const struct engine_channel *channel)
{
	struct engine_slot *slots = (void *)((char *)(uintptr_t)channel + channel->slots_at);

	for (uint32_t i = 0; i < channel->slot_count && slots[i].tid; i++) {
		slots[i].segments[1].number = UINT64_MAX;
		slots[i].segments[2].number = UINT64_MAX / 2;
		slots[i].segments[3].number = UINT64_C(1) << 47;
	}
	return 0;
}

static void *places(void *data)
{
	struct engine_channel *channel;

	while (!(channel = find()))
		usleep(1000);
	while (__atomic_load_n(&channel->state, __ATOMIC_ACQUIRE) != ENGINE_RUNS)
		usleep(1000);
	channel->places.leave = channel->places.take = channel->places.undo = POISON;
	channel->places.mappings = (uint64_t)&channel->places.leave;
	puts("0");
	fflush(stdout);
	return data;
}

int main(int argc, char **argv)
{
	struct engine_channel *channel = find();
	uint32_t pid = argc > 2 ? (uint32_t)atoi(argv[1]) : 0, answer;
	pthread_t thread;

	if (argc > 2 && !strcmp(argv[2], "places"))
		return pthread_create(&thread, NULL, places, NULL) || getchar() != EOF ||
		       pthread_join(thread, NULL);
	if (!channel || argc < 3)
		return 2;
	if (!strcmp(argv[2], "exec")) {
		channel->ask_tid = pid;
		__atomic_store_n(&channel->ask, ENGINE_ASK_EXEC, __ATOMIC_SEQ_CST);
		answer = answer_to(channel, &channel->ask, ENGINE_ASK_EXEC);
	} else if (!strcmp(argv[2], "trace")) {
		answer = trace(channel, pid);
	} else if (!strcmp(argv[2], "signal")) {
		answer = have_signalled(channel);
	} else if (!strcmp(argv[2], "segments")) {
		answer = segments(channel);
	} else {
		answer = child(channel, pid, !strcmp(argv[2], "borrows"));
	}
	printf("%u\n", answer);
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}
