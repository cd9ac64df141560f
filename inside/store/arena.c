/* SPDX-License-Identifier: MIT */
#include "inside/store/arena.h"

#include "base/syscall.h"
#include "inside/runtime/reentrancy_guard.h"

#include <cpuid.h>
#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#define ROWS_MAX (WRITERS_MAX / 2) /* a writer keeps those too */
#define DEEPER_MAX WRITERS_MAX /* a writer keeps those that it had: depths elsewhere are common */
/* In glibc's struct pthread: where the thread's id is looked for, and its stack */
#define TID_AT 512
#define TID_BEFORE 1024
#define TID_USUAL 720
#define STACK_BEFORE 2048
#define STACK_NEAR_BYTES (UINT64_C(64) << 10) /* next to a thread's block there is only its stack */
#define STACK_MAX_BYTES (UINT64_C(64) << 20)  /* of the main thread's */
#define STACK_SANE_BYTES (UINT64_C(1) << 40)
#define CPU_SELECTOR 0x7b /* Linux: __CPUNODE_SEG, whose limit is the CPU's number and its node */
#define CPU_BITS 12
#define CPU_LOOKS 3

extern void *__libc_stack_end; /* glibc, ld.so: where the main thread's stack began */

struct rseq_area {
	uint32_t cpu_id_start, cpu_id;
};

static struct arena {
	uint32_t is_ours; /* 1 from init on; 0 again in a child */
	int32_t pid;
	uint32_t used; /* writers from here on were never used */
	uint32_t free_hint;
	uint32_t deeper_used;
	struct writer writers[WRITERS_MAX];
	struct lanes deeper[DEEPER_MAX];
} * arena;

/* Apart, for a program whose memory is limited has no sums usually. */
static struct rows_arena {
	uint32_t used;
	struct rows all[ROWS_MAX];
} * rows_arena;

static struct spans *spans_arena; /* likewise; one for each writer */

static pthread_key_t exit_key;
static int has_exit_key;
static uint32_t tid_at, stack_at; /* in a thread's block; 0: unknown */
static ptrdiff_t rseq_at;	  /* 0: none */
static int has_rdpid;
static uint64_t main_stack_bytes;
static char process_comm[16];
static uint64_t ended_hits[COUNTERS_MAX]; /* of threads that are gone */

ON_HIT_PATH int arena_is_ours(void)
{
	return arena && __atomic_load_n(&arena->is_ours, __ATOMIC_RELAXED);
}

ON_HIT_PATH uintptr_t arena_main_stack_end(void)
{
	return (uintptr_t)__libc_stack_end;
}

/*
 * At thread exit, by way of the key's destructor. Signals are held off: a handler that hits a
 * marker in the middle of this would find the lanes half closed.
 */
static void arena_writer_end(struct writer *writer);

static void thread_exit(void *data)
{
	struct writer *writer = data;
	sigset_t all, before;
	struct reentrancy_guard guard;

	reentrancy_guard_enter(&guard);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (writer_self == writer && arena_is_ours() && writer->state == WRITER_LIVE) {
		writer_self = NULL;
		arena_writer_end(writer);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	reentrancy_guard_leave(&guard);
}

ON_HIT_PATH static const char *block(void)
{
	return __builtin_thread_pointer();
}

ON_HIT_PATH int32_t arena_own_tid(void)
{
	return *(const int32_t *)(block() + tid_at);
}

ON_HIT_PATH static uintptr_t block_word(uint32_t at)
{
	return *(const uintptr_t *)(block() + at);
}

/* glibc: the lowest address and the size of what it mapped, in which the block is the last thing */
ON_HIT_PATH static int is_stack(uint32_t at)
{
	uintptr_t low = block_word(at), bytes = block_word(at + sizeof low);

	return low && bytes < STACK_SANE_BYTES && (uintptr_t)block() - low < bytes;
}

ON_HIT_PATH struct writer_stack arena_own_stack(void)
{
	uintptr_t low = (uintptr_t)block() - STACK_NEAR_BYTES;
	uint32_t at = __atomic_load_n(&stack_at, __ATOMIC_RELAXED);

	if (at && is_stack(at))
		low = block_word(at);
	else if (arena_own_tid() == arena->pid)
		return (struct writer_stack){ arena_main_stack_end() - main_stack_bytes,
					      main_stack_bytes };
	return (struct writer_stack){ low, (uintptr_t)block() - low };
}

void arena_learn_stacks(void)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);

	for (uint32_t at = TID_AT; at < STACK_BEFORE && !stack_at; at += sizeof here) {
		if (is_stack(at) && here - block_word(at) < block_word(at + sizeof here) &&
		    !((block_word(at) | block_word(at + sizeof here)) & 4095))
			__atomic_store_n(&stack_at, at, __ATOMIC_RELAXED);
	}
}

/* Both instructions read what the kernel sets for getcpu(2); the second is slow. */
ON_HIT_PATH static uint32_t cpu_number(void)
{
	uint64_t number;

	if (has_rdpid)
		__asm__ volatile("rdpid %0" : "=r"(number));
	else
		__asm__ volatile("lsl %1, %k0" : "=r"(number) : "r"(CPU_SELECTOR) : "cc");
	return (uint32_t)number & ((1u << CPU_BITS) - 1);
}

ON_HIT_PATH int arena_is_own_thread(void)
{
	const volatile struct rseq_area *area = (const void *)(block() + rseq_at);
	int is_own = !rseq_at;

	/* it may be moved to another CPU between the two */
	for (int i = 0; i < CPU_LOOKS && !is_own; i++) {
		uint32_t cpu = area->cpu_id;

		is_own = (int32_t)cpu < 0 || cpu >> CPU_BITS || cpu == cpu_number();
	}
	return is_own;
}

/*
 * What the loader has of that name; NULL. A reference to it, even a weak one, would have the linker
 * demand the glibc that brought it.
 */
static const void *loader_object(const char *name)
{
	uintptr_t base = getauxval(AT_BASE), symbols = 0, texts = 0;
	const Elf64_Ehdr *header = (const void *)base;
	const Elf64_Phdr *segment = (const void *)(base + header->e_phoff), *end;
	const Elf64_Dyn *entry = NULL;

	for (end = segment + header->e_phnum; segment < end; segment++)
		if (segment->p_type == PT_DYNAMIC)
			entry = (const void *)(base + segment->p_vaddr);
	for (; entry && entry->d_tag; entry++) {
		if (entry->d_tag == DT_SYMTAB)
			symbols = entry->d_un.d_ptr;
		if (entry->d_tag == DT_STRTAB)
			texts = entry->d_un.d_ptr;
	}
	/*
	 * the loader may have added its address already; linkers put the names behind the symbols
	 */
	symbols += symbols < base ? base : 0;
	texts += texts < base ? base : 0;
	for (const Elf64_Sym *symbol = (const void *)symbols; (uintptr_t)(symbol + 1) <= texts;
	     symbol++) {
		if (symbol->st_shndx && !strcmp((const char *)texts + symbol->st_name, name))
			return (const void *)(base + symbol->st_value);
	}
	return NULL;
}

/* Since glibc 2.35: where the area for rseq(2) is, from the thread pointer; 0: nowhere known. */
static ptrdiff_t rseq_find(void)
{
	const ptrdiff_t *offset;
	const unsigned int *bytes;

	if (!getauxval(AT_BASE))
		return 0; /* static, or run by the loader's name */
	offset = loader_object("__rseq_offset");
	bytes = loader_object("__rseq_size");
	return offset && bytes && *bytes ? *offset : 0;
}

/* Looks whether things are where this file expects them. */
static void block_learn(void)
{
	int32_t tid = (int32_t)syscall_raw(SYS_gettid, 0, 0, 0, 0);
	unsigned int a, b, c, d;
	struct rlimit stack;

	has_rdpid = __get_cpuid_count(7, 0, &a, &b, &c, &d) && c & bit_RDPID;
	for (tid_at = TID_AT; tid_at < TID_BEFORE && arena_own_tid() != tid; tid_at += sizeof tid)
		;
	/* older ones than 2.34 set it after we come */
	if (tid_at == TID_BEFORE)
		tid_at = TID_USUAL;
	main_stack_bytes = STACK_MAX_BYTES;
	if (!getrlimit(RLIMIT_STACK, &stack) && stack.rlim_cur < main_stack_bytes)
		main_stack_bytes = stack.rlim_cur;
	rseq_at = rseq_find();
	if (!arena_is_own_thread())
		rseq_at = 0;
}

/* Memory that a child of fork finds zeroed. 0 or -errno. */
static int wiped_map(size_t bytes, void **result)
{
	void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (map == MAP_FAILED)
		return -errno;
	if (madvise(map, bytes, MADV_WIPEONFORK)) {
		int error = -errno;

		munmap(map, bytes);
		return error;
	}
	/* a huge page here would make each thread cost far more than its writer */
	madvise(map, bytes, MADV_NOHUGEPAGE);
	*result = map;
	return 0;
}

int arena_rows_any(void)
{
	return rows_arena != NULL;
}

int arena_rows_prepare(void)
{
	void *map;

	if (rows_arena)
		return 0;
	if (wiped_map(sizeof *rows_arena, &map))
		return -ENOMEM;
	rows_arena = map; /* before the plan that needs it is published */
	return 0;
}

int arena_spans_prepare(void)
{
	void *map;

	if (spans_arena)
		return 0;
	if (wiped_map(WRITERS_MAX * sizeof *spans_arena, &map))
		return -ENOMEM;
	spans_arena = map;
	return 0;
}

int arena_init(void)
{
	struct arena *map;
	void *wiped;
	int error;

	block_learn();
	error = wiped_map(sizeof *map, &wiped);
	if (error)
		return error;
	map = wiped;
	has_exit_key = pthread_key_create(&exit_key, thread_exit) == 0;
	prctl(PR_GET_NAME, process_comm);
	map->pid = getpid();
	map->is_ours = 1;
	arena = map;
	return 0;
}

void arena_forked(void)
{
	/* a hit that the fork interrupted may still store to it: the child takes another */
	if (writer_self)
		writer_self->state = WRITER_CLAIMED;
	writer_self = NULL;
	memset(ended_hits, 0, sizeof ended_hits);
	if (!arena)
		return;
	arena->pid = getpid();
	__atomic_store_n(&arena->is_ours, 1, __ATOMIC_RELAXED);
}

static struct writer *claim(uint32_t number)
{
	struct writer *writer = &arena->writers[number];
	uint32_t none = WRITER_FREE;

	/* FREE -> CLAIMED; acquire pairs with the release in end_writer() */
	if (__atomic_compare_exchange_n(&writer->state, &none, WRITER_CLAIMED, 0, __ATOMIC_ACQUIRE,
					__ATOMIC_RELAXED))
		return writer;
	return NULL;
}

static struct writer *claim_any(void)
{
	uint32_t used = __atomic_load_n(&arena->used, __ATOMIC_ACQUIRE);
	uint32_t hint = __atomic_load_n(&arena->free_hint, __ATOMIC_RELAXED);
	struct writer *writer;

	/* the hint is one past a writer that ended; take that, or a new one, before searching */
	if (hint && hint <= used) {
		__atomic_store_n(&arena->free_hint, 0, __ATOMIC_RELAXED);
		writer = claim(hint - 1);
		if (writer)
			return writer;
	}
	while (used < WRITERS_MAX) {
		if (!__atomic_compare_exchange_n(&arena->used, &used, used + 1, 0, __ATOMIC_ACQ_REL,
						 __ATOMIC_ACQUIRE))
			continue;
		writer = claim(used);
		if (writer)
			return writer;
	}
	for (uint32_t i = 0; i < WRITERS_MAX; i++) {
		writer = claim(i);
		if (writer)
			return writer;
	}
	return NULL;
}

struct writer *arena_writer_new(void)
{
	struct writer *writer = claim_any();

	if (!writer)
		return NULL;
	__atomic_fetch_add(&writer->births, 1, __ATOMIC_RELAXED);
	memset(writer->inside, 0, sizeof writer->inside);
	memset(writer->running_fn, 0, sizeof writer->running_fn);
	writer->stack = arena_own_stack();
	writer->elsewhere = (struct writer_stack){ 0 };
	writer->tid = arena_own_tid();
	writer->pid = arena->pid;
	writer->name_looks = 0;
	memcpy(writer->comm, process_comm, sizeof writer->comm);
	/*
	 * A key past the first 32 would make libc allocate, which a signal handler must not:
	 * without a destructor, store_sweep() finds that the thread is gone.
	 */
	if (has_exit_key && exit_key < 32)
		pthread_setspecific(exit_key, writer);
	/* CLAIMED -> LIVE */
	__atomic_store_n(&writer->state, WRITER_LIVE, __ATOMIC_RELEASE);
	return writer;
}

ON_HIT_PATH struct lanes *arena_lanes_new(void)
{
	uint32_t used = __atomic_load_n(&arena->deeper_used, __ATOMIC_RELAXED);

	while (used < DEEPER_MAX) {
		if (__atomic_compare_exchange_n(&arena->deeper_used, &used, used + 1, 0,
						__ATOMIC_RELAXED, __ATOMIC_RELAXED))
			return &arena->deeper[used];
	}
	return NULL;
}

ON_HIT_PATH struct rows *arena_rows_new(void)
{
	uint32_t used = rows_arena ? __atomic_load_n(&rows_arena->used, __ATOMIC_RELAXED)
				   : ROWS_MAX;

	while (used < ROWS_MAX) {
		if (__atomic_compare_exchange_n(&rows_arena->used, &used, used + 1, 0,
						__ATOMIC_RELAXED, __ATOMIC_RELAXED))
			return &rows_arena->all[used];
	}
	return NULL;
}

ON_HIT_PATH struct spans *arena_spans(const struct writer *writer)
{
	struct spans *spans = &spans_arena[writer - arena->writers];

	/* those of a thread that had the writer before never end */
	for (int i = 0; spans->births != writer->births && i < SPANS_OPEN_MAX; i++)
		*(volatile uintptr_t *)&spans->of[i].at = 0;
	spans->births = writer->births;
	return spans;
}

void arena_ending_take(struct writer *writer)
{
	while (__atomic_exchange_n(&writer->ending, 1, __ATOMIC_ACQUIRE))
		sched_yield();
}

void arena_ending_drop(struct writer *writer)
{
	__atomic_store_n(&writer->ending, 0, __ATOMIC_RELEASE);
}

/* LIVE -> FREE, with `ending` held. */
static void end_writer(struct writer *writer)
{
	void (*ends)(struct writer *) = __atomic_load_n(&writer_ends, __ATOMIC_ACQUIRE);

	/* lanes of deeper levels and rows stay with the writer, for the thread that has it next */
	for (unsigned int session = 0; session < SESSIONS_MAX; session++)
		writer_lanes_each(writer, session, lane_end);
	for (int i = 0; i < COUNTERS_MAX; i++) {
		if (writer->hits[i])
			__atomic_fetch_add(&ended_hits[i], writer->hits[i], __ATOMIC_RELAXED);
		writer->hits[i] = 0;
	}
	if (ends)
		ends(writer);
	for (int i = 0; i < DEPTH_MAX; i++)
		__atomic_store_n(&writer->inside[i], 0, __ATOMIC_RELAXED);
	/* pairs with the acquire in claim() */
	__atomic_store_n(&writer->state, WRITER_FREE, __ATOMIC_RELEASE);
}

/* End all streams of the calling thread's writer and free it. */
static void arena_writer_end(struct writer *writer)
{
	uint32_t number = (uint32_t)(writer - arena->writers);

	arena_ending_take(writer);
	end_writer(writer);
	arena_ending_drop(writer);
	__atomic_store_n(&arena->free_hint, number + 1, __ATOMIC_RELAXED);
}

void arena_writer_end_dead(struct writer *writer, uint32_t births)
{
	arena_ending_take(writer);
	/* the same birth and still live: it is the dead thread's, who will not end it any more */
	if (__atomic_load_n(&writer->state, __ATOMIC_ACQUIRE) == WRITER_LIVE &&
	    __atomic_load_n(&writer->births, __ATOMIC_RELAXED) == births)
		end_writer(writer);
	arena_ending_drop(writer);
}

struct count {
	uint32_t number;
	uint64_t hits;
};

static void count_hits(struct writer *writer, void *data)
{
	struct count *count = data;

	count->hits += __atomic_load_n(&writer->hits[count->number], __ATOMIC_RELAXED);
}

uint64_t arena_hits(uint32_t number)
{
	struct count count = { .number = number };

	if (number >= COUNTERS_MAX)
		return UINT64_MAX;
	count.hits = __atomic_load_n(&ended_hits[number], __ATOMIC_RELAXED);
	arena_each(count_hits, &count);
	return count.hits;
}

void arena_each(void (*visit)(struct writer *writer, void *data), void *data)
{
	uint32_t used;

	if (!arena)
		return;
	used = __atomic_load_n(&arena->used, __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < used && i < WRITERS_MAX; i++) {
		struct writer *writer = &arena->writers[i];

		if (__atomic_load_n(&writer->state, __ATOMIC_ACQUIRE) == WRITER_LIVE)
			visit(writer, data);
	}
}
