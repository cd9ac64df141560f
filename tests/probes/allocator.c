/* SPDX-License-Identifier: MIT */
/*
 * A program with a memory allocator of its own, which keeps each thread's part in thread-local
 * memory and all of them in a list, as jemalloc does: a thread leaves the list by a destructor. It
 * goes over the list all the while, and calls work(round), until SIGTERM.
 */
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define HEAP_BYTES (64u << 20)
#define HEAD_BYTES 16

struct part {
	struct part *next, *previous;
	long count;
	int is_in;
};

static _Alignas(16) unsigned char heap[HEAP_BYTES];
static size_t used;
static struct part all = { .next = &all, .previous = &all };
static __thread struct part own __attribute__((tls_model("initial-exec")));
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t key;
static volatile sig_atomic_t ended;

__attribute__((noinline)) long work(long round);

static void leave(void *part)
{
	struct part *mine = part;

	pthread_mutex_lock(&lock);
	mine->next->previous = mine->previous;
	mine->previous->next = mine->next;
	pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void make_key(void)
{
	pthread_key_create(&key, leave);
}

void *malloc(size_t bytes)
{
	size_t at, room = (bytes + HEAD_BYTES + 15) & ~(size_t)15;

	if (!own.is_in) {
		own.is_in = 1;
		pthread_mutex_lock(&lock);
		own.next = all.next;
		own.previous = &all;
		all.next->previous = &own;
		all.next = &own;
		pthread_mutex_unlock(&lock);
		pthread_setspecific(key, &own);
	}
	own.count++;
	at = __atomic_fetch_add(&used, room, __ATOMIC_RELAXED);
	if (at + room > HEAP_BYTES)
		return NULL;
	memcpy(heap + at, &bytes, sizeof(bytes));
	return heap + at + HEAD_BYTES;
}

void free(void *memory)
{
	(void)memory; /* 64 MiB will do */
}

void *calloc(size_t count, size_t bytes)
{
	return malloc(count * bytes);
}

void *realloc(void *memory, size_t bytes)
{
	void *more = malloc(bytes);
	size_t before = 0;

	if (!more || !memory)
		return more;
	memcpy(&before, (char *)memory - HEAD_BYTES, sizeof(before));
	return memcpy(more, memory, before < bytes ? before : bytes);
}

long work(long round)
{
	long sum = round;

	pthread_mutex_lock(&lock);
	for (struct part *part = all.next; part != &all; part = part->next)
		sum += part->count;
	pthread_mutex_unlock(&lock);
	return sum;
}

static void end(int signal)
{
	(void)signal;
	ended = 1;
}

int main(void)
{
	long sum = 0;

	signal(SIGTERM, end);
	for (long round = 0; !ended; round++) {
		sum += work(round);
		usleep(1000);
	}
	return sum == -1;
}
