/* SPDX-License-Identifier: MIT */
#include "target/process/ticks.h"
#include "target/trial/result_cache.h"
#include "target/trial/simulate.h"
#include "target/trial/trial_groups.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define TRIAL_EXECMEM                                                                              \
	"with SELinux: setsebool allow_execmem 1; in a systemd unit: MemoryDenyWriteExecute=no"

/* is_limit, is_basic */
#define ABSENT 0, 0
#define LIMITED 1, 0
#define BASIC 0, 1

static const struct trial_row rows[TRIAL_COUNT] = {
#define X(id, name, group, kept, lack, area, needs, works, fails, instead)                         \
	[TRIAL_##id] = { name, area, works, fails, instead, TRIAL_##needs, kept, lack },
#include "target/trial/trial.def"
#undef X
};

_Static_assert(TRIAL_COUNT < 64, "a bit each");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Under the lock: the answers that this process has, and a bit for each. */
static struct trial_answer known[TRIAL_COUNT];
static uint64_t is_known;
static int is_cache_read;

const struct trial_row *trial_row(enum trial trial)
{
	return &rows[trial];
}

int trial_find(const char *name)
{
	for (int i = 0; i < TRIAL_COUNT; i++)
		if (!strcmp(rows[i].name, name))
			return i;
	return -ENOENT;
}

/* Under the lock. Returns whether a row became known that is worth keeping. */
static int try_now(uint64_t wanted)
{
	struct trial_answer answers[TRIAL_COUNT];
	uint64_t tried = trial_run(wanted, answers);
	int is_new = 0;

	for (int i = 0; i < TRIAL_COUNT; i++) {
		if (!(tried >> i & 1))
			continue;
		is_new |= rows[i].is_kept && answers[i].state != TRIAL_UNKNOWN;
		known[i] = answers[i];
		is_known |= UINT64_C(1) << i;
	}
	return is_new;
}

/* Under the lock: make the rows known. */
static void learn(uint64_t wanted, int is_again)
{
	if (!is_cache_read && !simulate_any())
		is_known |= cache_read(known);
	is_cache_read = 1;
	if (!is_again)
		wanted &= ~is_known;
	if (wanted && try_now(wanted) && !simulate_any())
		cache_write(known);
}

static void ask(enum trial trial, int is_again, struct trial_answer *answer)
{
	pthread_mutex_lock(&lock);
	learn(UINT64_C(1) << trial, is_again);
	*answer = known[trial];
	pthread_mutex_unlock(&lock);
}

void trial_ask(enum trial trial, struct trial_answer *answer)
{
	ask(trial, 0, answer);
}

void trial_ask_again(enum trial trial, struct trial_answer *answer)
{
	ask(trial, 1, answer);
}

uint64_t trial_ask_all(struct trial_answer answers[TRIAL_COUNT])
{
	const uint64_t all = (UINT64_C(1) << TRIAL_COUNT) - 1;
	uint64_t began_ns = ticks_monotonic_ns();

	pthread_mutex_lock(&lock);
	learn(all, 0);
	memcpy(answers, known, sizeof(known));
	pthread_mutex_unlock(&lock);
	return (ticks_monotonic_ns() - began_ns) / 1000;
}

void trial_reason(enum trial trial, const struct trial_answer *answer, char *text, size_t bytes)
{
	const struct trial_row *row = &rows[trial];
	const char *name = strerrorname_np(-answer->error);

	if (answer->state != TRIAL_UNKNOWN)
		snprintf(text, bytes, "%s: %s%s%s%s", row->name,
			 answer->state == TRIAL_WORKS ? row->works : row->fails,
			 answer->words[0] ? " (" : "", answer->words, answer->words[0] ? ")" : "");
	else if (answer->error == -ETIMEDOUT)
		snprintf(text, bytes, "%s: the trial timed out after %d ms", row->name,
			 TRIAL_LIMIT_MS);
	else if (answer->error == -EAGAIN)
		snprintf(text, bytes, "%s: the machine was too busy to try it", row->name);
	else if (answer->error == -ECANCELED)
		snprintf(text, bytes, "%s: the trial was killed, as by a seccomp filter",
			 row->name);
	else
		snprintf(text, bytes, "%s: it could not be tried: %s", row->name,
			 name ? name : "no cause is known");
}

int trial_need(enum trial trial, int error, struct detail detail)
{
	struct trial_answer answer;

	trial_ask(trial, &answer);
	if (answer.state != TRIAL_FAILS)
		return 0;
	return detail_set(detail, error, "%s%s: %s", rows[trial].name,
			  simulate_any() ? ", simulated" : "",
			  answer.words[0] ? answer.words : rows[trial].fails);
}
