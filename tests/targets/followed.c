/* SPDX-License-Identifier: MIT */
/* Lists whose pointers change while their values are written: see tests/watch_follow.sh. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct node {
	struct node *next;
	long value;
	int pair[2];
};

static struct node nodes[4];
struct node *head, *empty, ring;
static atomic_int is_over;
static long round_count;

#define STORE(place, number) (*(volatile long *)&(place) = (number))

static void point(struct node **pointer, struct node *to)
{
	*(struct node *volatile *)pointer = to;
}

/* Each node in turn; what is not in the list is written too. */
static void walk(void)
{
	point(&head, &nodes[0]);
	for (long i = 0; i < round_count; i++) {
		point(&nodes[0].next, &nodes[1 + i % 3]);
		STORE(nodes[1 + i % 3].value, 100 + i);
		STORE(nodes[1 + (i + 1) % 3].value, 9000 + i);
		STORE(nodes[0].value, 9500 + i);
	}
}

/*
 * A circular list. While it is empty, `ring.next->next` is `ring.next`: a store of it writes the
 * value and the pointer to it.
 */
static void circle(void)
{
	point(&ring.next, &ring);
	for (long i = 0; i < round_count; i++) {
		struct node *node = &nodes[1 + i % 2];

		point(&node->next, &ring); /* not in the list */
		point(&ring.next, node);
		point(&node->next, &nodes[3]);
		point(&node->next, &ring);
		point(&ring.next, &ring);
	}
}

/* One instruction writes a pointer and the value that it led to. */
static void at_once(void)
{
	struct node to = { .next = &nodes[1] };

	point(&head, &nodes[0]);
	for (long i = 0; i < round_count; i++) {
		point(&nodes[0].next, &nodes[0]);
		to.value = 100 + i;
		__asm__ volatile("movups %1, %%xmm0\n\tmovups %%xmm0, %0"
				 : "=m"(*(char(*)[16]) & nodes[0])
				 : "m"(*(char(*)[16]) & to)
				 : "xmm0");
		STORE(nodes[1].value, 200 + i);
		STORE(nodes[0].value, 9000 + i);
	}
}

/* Null at first; set, written, null, written. */
static void wait_for_it(void)
{
	STORE(nodes[1].value, 5);
	for (long i = 0; i < round_count; i++) {
		point(&empty, &nodes[1]);
		STORE(nodes[1].value, 10 + i);
		point(&empty, NULL);
		STORE(nodes[1].value, 9000 + i);
	}
}

/* Wild, unmapped, odd. */
static void stray(void)
{
	static char odd[64];
	long *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct node *const bad[] = { (struct node *)page, (struct node *)0x4141414141414141,
				     (struct node *)-8L, (struct node *)8,
				     (struct node *)(odd + 3) };

	munmap(page, 4096);
	for (long i = 0; i < round_count; i++) {
		point(&head, bad[i % 5]);
		point(&head, &nodes[1]);
		STORE(nodes[1].value, 10 + i);
	}
}

static void *write_both(void *data)
{
	(void)data;
	for (long i = 1; !is_over; i++) {
		STORE(nodes[1].value, 1000000 + i);
		STORE(nodes[2].value, 2000000 + i);
	}
	return NULL;
}

/* Threads write both nodes, each with its own numbers, while the pointer changes sides. */
static void race(void)
{
	pthread_t threads[2];

	point(&head, &nodes[1]);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, write_both, NULL);
	for (long i = 0; i < round_count; i++) {
		point(&head, &nodes[1 + i % 2]);
		usleep(1000);
	}
	is_over = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

/*
 * As race(), but each writer holds the lock: a recording has to have all that is written to the
 * pointer's node.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long written;

static void *write_locked(void *data)
{
	(void)data;
	for (long i = 1; !is_over; i++) {
		pthread_mutex_lock(&lock);
		STORE(nodes[1].value, 1000000 + i);
		STORE(nodes[2].value, 2000000 + i);
		written++;
		pthread_mutex_unlock(&lock);
		sched_yield();
	}
	return NULL;
}

static void race_locked(void)
{
	pthread_t threads[2];

	point(&head, &nodes[1]);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, write_locked, NULL);
	for (long i = 0; i < round_count; i++) {
		long before;

		pthread_mutex_lock(&lock);
		point(&head, &nodes[1 + i % 2]);
		before = written;
		pthread_mutex_unlock(&lock);
		while (*(volatile long *)&written < before + 3)
			sched_yield();
	}
	is_over = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	printf("written %ld\n", written);
}

/* The kernel sets the pointer: no hit. A write of where it was before says so. */
static void by_kernel(void)
{
	struct node *to = &nodes[2];
	int ends[2];

	point(&head, &nodes[1]);
	STORE(nodes[1].value, 1);
	if (pipe(ends) || write(ends[1], &to, sizeof(to)) != sizeof(to) ||
	    read(ends[0], &head, sizeof(head)) != sizeof(head))
		exit(3);
	STORE(nodes[1].value, 9001);
	STORE(nodes[2].value, 2);
}

static void family(void)
{
	int status = 0;

	point(&head, &nodes[1]);
	STORE(nodes[1].value, 1);
	fflush(stdout);
	if (!fork()) {
		point(&head, &nodes[2]);
		STORE(nodes[2].value, 21);
		STORE(nodes[1].value, 9001);
		_exit(0);
	}
	wait(&status);
	STORE(nodes[1].value, 2);
	STORE(nodes[2].value, 9002);
	if (status)
		exit(3);
}

/* With SIGTRAP blocked past libc: the pointer's signal comes once its node has been written. */
static void blocked(void)
{
	unsigned long trap = 1ul << (SIGTRAP - 1);

	point(&head, &nodes[1]);
	for (long i = 0; i < round_count; i++) {
		syscall(SYS_rt_sigprocmask, SIG_BLOCK, &trap, NULL, sizeof(trap));
		point(&head, &nodes[2]);
		STORE(nodes[2].value, 9000 + i);
		syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &trap, NULL, sizeof(trap));
		STORE(nodes[2].value, 100 + i);
		point(&head, &nodes[1]);
	}
}

/* To a library's memory, and from there to ours once it is unloaded. */
static void unload(void)
{
	for (long i = 0; i < round_count; i++) {
		void *library = dlopen("./room.so", RTLD_NOW);
		struct node *there = library ? dlsym(library, "room") : NULL;

		if (!there)
			exit(3);
		point(&head, there);
		STORE(there->value, 100 + i);
		dlclose(library);
		point(&head, &nodes[1]);
		STORE(nodes[1].value, 200 + i);
	}
}

/* Until its input ends. */
static void for_long(void)
{
	char byte;

	fcntl(0, F_SETFL, O_NONBLOCK);
	puts("ready");
	fflush(stdout);
	for (long i = 0; read(0, &byte, 1); i++) {
		point(&head, &nodes[1 + i % 2]);
		STORE(nodes[1 + i % 2].value, 10 + i);
	}
}

/* The main thread ends; the other one walks on, and ends the program. */
static void *walk_alone(void *data)
{
	char path[64], state = 0;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", getpid());
	while (state != 'Z') {
		FILE *file = fopen(path, "r");

		if (!file || fscanf(file, "%*d %*s %c", &state) != 1)
			exit(3);
		fclose(file);
	}
	walk();
	puts("right");
	exit(data != NULL);
}

static void leader(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, walk_alone, NULL);
	pthread_exit(NULL);
}

static void leave(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, write_both, NULL);
	for (long i = 0; i < round_count; i++)
		point(&head, &nodes[1 + i % 2]);
	_exit(0);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = { { "walk", walk },	    { "wait", wait_for_it },   { "stray", stray },
		      { "race", race },	    { "locked", race_locked }, { "kernel", by_kernel },
		      { "family", family }, { "long", for_long },      { "leave", leave },
		      { "unload", unload }, { "blocked", blocked },    { "ring", circle },
		      { "once", at_once },  { "leader", leader } };

	round_count = argc > 2 ? atol(argv[2]) : 10;
	for (size_t i = 0; argc > 1 && i < sizeof(modes) / sizeof(modes[0]); i++)
		if (!strcmp(argv[1], modes[i].name)) {
			modes[i].run();
			puts("right");
			return 0;
		}
	return 2;
}
