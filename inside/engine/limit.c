/* SPDX-License-Identifier: MIT */
#include "inside/engine/channel.h"
#include "inside/engine/engine_lock.h"
#include "inside/engine/engine_memory.h"
#include "inside/engine/gate.h"
#include "inside/engine/limit.h"
#include "inside/engine/sys.h"

#include <errno.h>
#include <stddef.h>
#include <sys/resource.h>

#define LIMITS 2
#define INFINITE UINT64_MAX
#define HARD_MORE (UINT64_C(1) << 40)

struct limit {
	uint64_t soft, hard;
};

static const int resources[LIMITS] = { RLIMIT_AS, RLIMIT_DATA };
static struct limit asked[LIMITS], given[LIMITS];
static uint32_t is_set; /* a bit for each: the program has asked for it */
static uint32_t lock;

extern const char __ehdr_start[], _end[];

static long kernel(int which, const struct limit *now, struct limit *was)
{
	return sys_call(SYS_prlimit64, 0, resources[which], (long)now, (long)was, 0, 0);
}

static uint64_t more(uint64_t limit, uint64_t bytes)
{
	return limit > INFINITE - bytes ? INFINITE : limit + bytes;
}

/* The engine's memory that the limit counts. */
static uint64_t own_bytes(int which)
{
	uint64_t bytes = memory_mapped() +
			 (((uint64_t)(_end - __ehdr_start) + 4095) & ~UINT64_C(4095));

	return resources[which] == RLIMIT_AS ? bytes : bytes - channel.bytes - memory_unwritable();
}

/* The kernel's for what was asked. */
static struct limit raised(int which)
{
	uint64_t soft = more(asked[which].soft, own_bytes(which));
	uint64_t hard = given[which].hard;

	return (struct limit){ soft < hard ? soft : hard, hard };
}

static long set(int which, const struct limit *limit)
{
	struct limit now, was = asked[which], before = given[which];
	long err = kernel(which, NULL, &now);

	if (err)
		return err;
	asked[which] = *limit;
	given[which].hard = more(limit->hard, HARD_MORE);
	/* One that was low from the beginning stays where it is. */
	if (!(is_set & 1u << which) && now.hard != INFINITE && limit->hard <= now.hard)
		given[which].hard = now.hard;
	now = raised(which);
	err = kernel(which, &now, NULL);
	if (err) {
		asked[which] = was;
		given[which] = before;
	} else {
		is_set |= 1u << which;
	}
	return err;
}

static long change(int which, const struct limit *to, struct limit *was)
{
	long err = 0;

	if (to && to->soft > to->hard)
		return -EINVAL;
	lock_take(&lock);
	if (is_set & 1u << which)
		*was = asked[which];
	else
		err = kernel(which, NULL, was);
	if (!err && to)
		err = set(which, to);
	lock_give(&lock);
	return err;
}

static int which_of(uint64_t resource)
{
	for (int i = 0; i < LIMITS; i++)
		if (resources[i] == (int)resource)
			return i;
	return -1;
}

long limit_call(struct thread *thread, long (*plain)(const struct thread *))
{
	const uint64_t *gpr = thread->regs.gpr;
	int is_any = gpr[0] == SYS_prlimit64;
	int which = which_of(is_any ? gpr[6] : gpr[7]);
	uint64_t from = is_any ? gpr[2] : gpr[0] == SYS_setrlimit ? gpr[6] : 0;
	uint64_t to = is_any ? gpr[10] : gpr[0] == SYS_getrlimit ? gpr[6] : 0;
	struct limit limit, was;
	long err;

	if (which < 0 || (is_any && (int)gpr[7] && (int)gpr[7] != sys_call3(SYS_getpid, 0, 0, 0)) ||
	    (!from && !to))
		return plain(thread);
	if (from && gate_copy(&limit, (const void *)from, sizeof(limit)))
		return -EFAULT;
	err = change(which, from ? &limit : NULL, &was);
	if (!err && to && gate_copy((void *)to, &was, sizeof(was)))
		return -EFAULT;
	return err;
}

void limit_follow(void)
{
	if (!__atomic_load_n(&is_set, __ATOMIC_RELAXED))
		return;
	lock_take(&lock);
	for (int i = 0; i < LIMITS; i++) {
		struct limit now = raised(i);

		if (is_set & 1u << i)
			kernel(i, &now, NULL);
	}
	lock_give(&lock);
}

void limit_copy_begin(void)
{
	lock_take(&lock);
}

void limit_copy_end(void)
{
	lock_give(&lock);
}

void limit_restore(void)
{
	for (int i = 0; i < LIMITS; i++)
		if (is_set & 1u << i)
			kernel(i, &asked[i], NULL);
}

void limit_exec(int is_over)
{
	if (is_over) {
		limit_follow();
		return;
	}
	for (int i = 0; i < LIMITS; i++) {
		struct limit now = { asked[i].soft, given[i].hard };

		if (is_set & 1u << i)
			kernel(i, &now, NULL);
	}
}
