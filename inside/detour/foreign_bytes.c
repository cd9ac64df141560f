/* SPDX-License-Identifier: MIT */
/*
 *	stored -> held      a look finds another byte, such as another tool's; events may be missing
 *			    since the look before
 *	held -> stored      the other tool has gone, and the jump is stored again
 *	stored -> astray    the program changed the last bytes of the jump's distance, or mapped
 *			    something else at its landing. The jump is removed. Where the landing
 *			    is lost, it stays removed.
 *
 * The bytes of all jumps are gathered by few system calls, since a program may unmap its code at
 * any moment.
 */

#include "inside/detour/foreign_bytes.h"

#include "base/kernel.h"
#include "inside/detour/site.h"
#include "inside/patch/compare.h"
#include "inside/runtime/lock.h"
#include "inside/runtime/tasks.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define RETRY_MS 20 /* for a stop, where one is needed to store a jump again */
#define LOCK_MS 1000
/* between looks that are urgent: within 100 ms is promised for some 15,000 sites */
#define LOOK_NS UINT64_C(90000000)
#define SHARE 50 /* looks take one part in so many of a CPU: of very many sites there are fewer */
#define LANDINGS_NS UINT64_C(1000000000)
#define OTHERS_RUN_NS 100000

_Static_assert(DETOUR_INSN_MAX + DETOUR_KEPT_MAX <= COMPARE_BYTES_MAX,
	       "an item holds all that a head owns");

static uint64_t looked_ns; /* when the last look began */
static int any_armed, any_first, foreign_changed;
static int is_stale; /* some are armed, disarmed or wanted that were not when they were collected */

void foreign_bytes_changed(void)
{
	is_stale = 1;
}

void foreign_bytes_forget(struct detour *head)
{
	is_stale = 1;
	head->is_foreign = 0;
	head->held_ns = 0;
}

static void report(const struct detour *head, uint32_t lanes, uint64_t end_ns)
{
	for (const struct detour *d = head; d && registry_listener; d = d->next_member) {
		for (unsigned int i = 0; i < 2 * SESSIONS_MAX; i++) {
			unsigned int lane = i / 2;
			int which = i % 2;

			if (d->lanes & lanes & 1u << lane && detour_has_event(d, which))
				registry_listener->held(lane, d->events[which].ids[lane],
							head->held_ns, end_ns);
		}
	}
}

static void release(struct detour *head)
{
	uint64_t now_ns = lock_now_ns();

	head->is_foreign = 0;
	foreign_changed = 1;
	report(head, UINT32_MAX, now_ns);
	head->held_ns = now_ns;
}

void foreign_bytes_end(struct detour *head)
{
	if (head->is_foreign)
		release(head);
	foreign_bytes_forget(head);
}

static void begin_hold(struct detour *head)
{
	head->is_foreign = 1;
	foreign_changed = 1;
	report(head, UINT32_MAX, 0);
}

void foreign_bytes_armed(struct detour *head, int is_foreign, unsigned int lane)
{
	is_stale = any_armed = 1;
	head->is_armed = 1;
	if (!is_foreign && head->is_foreign) {
		release(head);
	} else if (is_foreign == head->is_foreign) {
		if (is_foreign)
			report(head, 1u << lane, 0);
	} else {
		head->held_ns = lock_now_ns();
		begin_hold(head);
	}
	if (!head->held_ns)
		head->held_ns = lock_now_ns();
}

/*
 * Where another tool's byte keeps all out, the file's bytes behind it are put back: it may run
 * them, or restore its own.
 */
static void put_rest_back(const struct text *text, struct detour *head)
{
	if (head->jump.form == FORM_FIRST && !tasks_is_traced())
		site_store(text, head, 0);
}

static void hold(struct detour *head)
{
	if (looked_ns > head->held_ns)
		head->held_ns = looked_ns;
	begin_hold(head);
}

static int is_lost(const struct detour *detour)
{
	return detour->is_lost && detour->is_armed && chain_is_wanted(detour);
}

static void store_again(const struct text *text)
{
	struct detour_result unused = { 0 };
	struct list list;

	if (site_list_make(&list, is_lost))
		return;
	site_change_all(text, &list, 1, RETRY_MS, &unused);
	for (size_t i = 0; i < list.count; i++) {
		list.sites[i].detour->is_lost = 0;
		list.sites[i].detour->is_armed = 1; /* at the next look, then */
		if (list.sites[i].is_done)
			release(list.sites[i].detour);
	}
	site_list_free(&list);
}

/* ---- looking ---- */

/* Heads that are armed and wanted; the landings of these. */
static struct compare_list armed, landings;

static int collect_landings(struct detour *head)
{
	struct compare_item *item;

	for (unsigned int i = 0; i < head->jump.count; i++) {
		if (compare_add(&landings, &item))
			return -ENOMEM;
		item->owner = head;
		item->address = head->jump.landings[i];
		item->bytes = DETOUR_JUMP_BYTES;
		landing_bytes(item->address, item->expected);
	}
	return 0;
}

static int collect(void)
{
	struct compare_item *item;

	armed.count = landings.count = 0;
	any_armed = any_first = 0;
	for (struct detour *d = detour_first(); d; d = d->next) {
		any_armed |= d->is_armed;
		any_first |= d->is_armed && d->jump.form == FORM_FIRST;
		if (!d->is_armed || d->head != d || !chain_is_wanted(d))
			continue;
		if (compare_add(&armed, &item))
			return -ENOMEM; /* the others, until there is memory */
		item->owner = d;
		item->address = d->record->address;
		item->bytes = (uint8_t)detour_owned(d->record);
		memcpy(item->expected, d->record->original, item->bytes);
		memcpy(item->expected + d->jump.bytes.at, d->jump.bytes.bytes, d->jump.bytes.count);
		if (collect_landings(d))
			return -ENOMEM;
	}
	is_stale = 0;
	return 0;
}

struct round {
	const struct text *text;
	int any_lost, any_astray;
};

static int is_astray(const struct detour *detour)
{
	return detour->is_astray && detour->is_armed;
}

static void go_astray(struct round *round, struct detour *head)
{
	head->is_astray = 1;
	round->any_astray = 1;
}

static void judge(void *owner, const uint8_t *found, int is_same, void *data)
{
	struct round *round = data;
	struct detour *head = owner;
	enum jump_state state;

	if (!found || (is_same && !head->is_foreign)) /* its module goes; or all is well */
		return;
	state = site_jump_state(round->text, head, found);
	if (state == JUMP_STORED && head->is_foreign) /* the other tool put our byte back */
		release(head);
	if (state == JUMP_STORED)
		return;
	if (state == JUMP_ASTRAY)
		go_astray(round, head);
	else if (!head->is_foreign)
		hold(head);
	if (state == JUMP_FOREIGN)
		put_rest_back(round->text, head);
	head->is_lost = state == JUMP_FILE_BYTES;
	round->any_lost |= head->is_lost;
}

static void judge_landing(void *owner, const uint8_t *unused, int is_same, void *data)
{
	struct detour *head = owner;

	(void)unused;
	if (is_same)
		return;
	for (unsigned int i = 0; i < head->jump.count; i++)
		landing_lose(head->jump.landings[i]);
	go_astray(data, head);
}

/* Without a stop in time they are tried again when they are next found. */
static void take_away_astray(const struct text *text)
{
	struct detour_result unused = { 0 };
	struct list list;

	if (site_list_make(&list, is_astray))
		return;
	site_change_all(text, &list, 0, RETRY_MS, &unused);
	for (size_t i = 0; i < list.count; i++) {
		struct detour *head = list.sites[i].detour;

		head->is_astray = 0;
		if (!list.sites[i].is_done)
			continue;
		if (!head->is_foreign)
			hold(head);
		/* what its distance ends in may be changed back */
		head->is_armed = !landing_error(&head->jump);
	}
	site_list_free(&list);
	is_stale = 1;
}

static void flush(void)
{
	if (foreign_changed && registry_listener)
		registry_listener->flush();
	foreign_changed = 0;
}

void foreign_bytes_look(const struct text *text)
{
	struct round round = { text, 0, 0 };
	uint64_t begin_ns = lock_now_ns();

	if (is_stale)
		collect();
	if (!armed.count)
		return;
	compare_run(text, &armed, judge, &round);
	if (round.any_astray)
		take_away_astray(text);
	if (round.any_lost)
		store_again(text);
	looked_ns = begin_ns;
	flush();
}

void foreign_bytes_landings(const struct text *text)
{
	struct round round = { text, 0, 0 };

	if (is_stale)
		collect();
	compare_run(text, &landings, judge_landing, &round);
	if (round.any_astray)
		take_away_astray(text);
	flush();
}

/* ---- when ---- */

static uint64_t next_look_ns, next_landings_ns;

static int is_any_armed(void)
{
	return any_armed || restored_any();
}

static uint64_t cpu_ns(clockid_t clock)
{
	struct timespec time = { 0 };

	syscall_raw(SYS_clock_gettime, clock, (long)&time, 0, 0);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/*
 * Where the other threads have hardly run since the last look, a look can wait. What a later look
 * finds is reported as having happened since the last look that was done.
 */
static int have_others_run(void)
{
	static int64_t last_ns;
	int64_t own_ns = (int64_t)cpu_ns(CLOCK_THREAD_CPUTIME_ID);
	int64_t others_ns = (int64_t)cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - own_ns;

	/* a forked child's time starts at 0 again */
	if (others_ns >= last_ns && others_ns - last_ns < OTHERS_RUN_NS)
		return 0;
	last_ns = others_ns;
	return 1;
}

/*
 * Some jump has the form "first", or may have it: that is dangerous as soon as a uprobe has gone,
 * however little runs meanwhile.
 */
static int is_urgent(void)
{
	return any_armed && (is_stale || any_first);
}

void foreign_bytes_tick(const struct text *text, uint64_t now_ns, int is_tick)
{
	uint64_t begin_ns, pause_ns;
	int is_frozen;

	if (!is_any_armed() || !(is_tick || is_urgent()) || now_ns < next_look_ns ||
	    lock_take(&agent_lock, LOCK_MS))
		return;
	begin_ns = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
	is_frozen = registry_is_frozen(text);
	if (!is_frozen && (is_urgent() || have_others_run())) {
		foreign_bytes_look(text);
		restored_look(text);
	}
	/*
	 * whether others have run or not: who maps memory and sleeps then has run for a moment only
	 */
	if (!is_frozen && now_ns >= next_landings_ns) {
		foreign_bytes_landings(text);
		next_landings_ns = now_ns + LANDINGS_NS;
	}
	lock_release(&agent_lock);
	pause_ns = (cpu_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns) * SHARE;
	if (is_urgent() && pause_ns < LOOK_NS)
		pause_ns = LOOK_NS;
	next_look_ns = now_ns + pause_ns;
}

int foreign_bytes_wait_ms(uint64_t now_ns, uint64_t next_tick_ns)
{
	uint64_t next_ns = next_tick_ns;

	/* one wake for both: in a server of many processes the agents' wakes add up */
	if (is_urgent() && next_look_ns < next_tick_ns + LOOK_NS)
		next_ns = next_look_ns;
	return now_ns >= next_ns ? 0 : (int)((next_ns - now_ns) / 1000000 + 1);
}
