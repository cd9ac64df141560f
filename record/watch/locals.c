/* SPDX-License-Identifier: MIT */
#include "record/watch/locals.h"

#include "record/perf/object.h"
#include "record/session/process.h"
#include "record/session/session.h"
#include "record/watch/living.h"
#include "record/watch/pending_hits.h"
#include "record/watch/watching_own.h"
#include "target/expression/local_frame.h"
#include "target/expression/variable.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/marker.h>

/* One variable. */
struct group {
	size_t spec;
	uint32_t number; /* of its entry's row */
	uint64_t module; /* the base of its library; 0: it is in the program itself */
	char *text;
	enum watch_kind kind;
	struct frame_place place;
	struct asked_watch asked; /* with addresses relative to the CFA */
	struct perf_object *entry;
	unsigned int frames;   /* how many it may have at once */
	unsigned int lived;    /* frames that existed at the attach, and were watched */
	unsigned int unplaced; /* frames that existed at the attach, and got no register */
};

/* One frame's watches. */
struct slot {
	struct locals *of;
	unsigned int group, frame;
	uint32_t numbers[WATCH_REGISTERS]; /* of its pieces' rows */
	struct perf_object *object;
	uint32_t for_state; /* the state that its watches are being moved for */
	uint64_t cfa;	    /* 0: parked */
	int is_parked, is_dead;
	int is_living; /* its first frame existed at the attach; cleared when that is armed */
	unsigned int idle_ms;
};

struct locals {
	struct group groups[FRAME_GROUPS_MAX];
	unsigned int group_count;
	struct slot slots[FRAMES_MAX];
	unsigned int slot_count;
	uint32_t magic;
	uint64_t numbers; /* its rows, one bit each */
	int unlooked;	  /* why frames that existed may not have been found; 0 */
	pid_t pid;
	struct watch_table *table;
	pthread_mutex_t lock; /* guards the slots and their objects while the thread runs */
	pthread_t thread;
	int has_thread, is_ending;
};

static inline struct frame_row *row_of(const struct slot *slot)
{
	return &slot->of->table->frames.rows[slot->frame];
}

static inline uint32_t number_of(const struct slot *slot, unsigned int piece)
{
	return slot->numbers[piece];
}

static long locals_futex(uint32_t *word, int what, uint32_t value, const struct timespec *time);
static void locals_serve_no_more(struct locals *locals);

/* How local variables' watches are counted and ended. */

static void let_go(const struct slot *slot)
{
	uint32_t *state = &row_of(slot)->state, now = __atomic_load_n(state, __ATOMIC_SEQ_CST);

	if (FRAME_STEP(now) == FRAME_ASKED)
		__atomic_compare_exchange_n(state, &now, FRAME_TO(now, FRAME_OVER), 0,
					    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	locals_futex(state, FUTEX_WAKE, INT_MAX, NULL);
}

void locals_quiet(struct locals *locals)
{
	if (!locals)
		return;
	for (unsigned int i = 0; i < locals->group_count; i++)
		if (locals->groups[i].entry)
			perf_object_quiet(locals->groups[i].entry);
	locals_serve_no_more(locals);
	for (unsigned int i = 0; i < locals->slot_count; i++) {
		if (locals->table)
			let_go(&locals->slots[i]);
		if (locals->slots[i].object)
			perf_object_quiet(locals->slots[i].object);
	}
}

static void count_slot(const struct slot *slot, struct watch_counts *counts)
{
	const struct group *group = &slot->of->groups[slot->group];

	for (unsigned int i = 0; i < group->asked.count && slot->object; i++) {
		const struct watch_row *row = &slot->of->table->rows[number_of(slot, i)];
		uint64_t hits = 0;

		perf_object_count(slot->object, i, &hits);
		watch_counts_add(counts, row, hits);
	}
}

/* Add the counts of the kernel and of the agent for a spec's variable. NULL is allowed. */
static void locals_count(struct locals *locals, size_t spec, struct watch_counts *counts)
{
	if (!locals)
		return;
	pthread_mutex_lock(&locals->lock);
	for (unsigned int i = 0; i < locals->group_count && locals->table; i++) {
		const struct frame_group *from = &locals->table->frames.groups[i];

		if (locals->groups[i].spec != spec)
			continue;
		counts->frames.entered += from->entered;
		counts->frames.watched += from->watched + locals->groups[i].lived;
		counts->frames.busy += from->busy + locals->groups[i].unplaced;
		counts->frames.late += from->late;
		counts->frames.unended += from->unended;
		counts->frames.over += from->over;
		counts->frames.outside += from->outside;
		counts->frames.unsure += from->unsure;
		for (unsigned int j = 0; j < locals->slot_count; j++)
			if (locals->slots[j].group == i)
				count_slot(&locals->slots[j], counts);
	}
	pthread_mutex_unlock(&locals->lock);
}

static const struct group *group_of(const struct locals *locals, size_t spec)
{
	for (unsigned int i = 0; locals && i < locals->group_count; i++)
		if (locals->groups[i].spec == spec)
			return &locals->groups[i];
	return NULL;
}

int locals_has(const struct locals *locals, size_t spec)
{
	return group_of(locals, spec) != NULL;
}

void locals_describe(const struct locals *locals, size_t spec, struct watched_spec *result)
{
	const struct group *group = group_of(locals, spec);

	result->is_local = 1;
	result->unlooked = locals->unlooked;
	result->frames = group->frames;
	result->pieces = group->asked.count;
	result->skew = group->asked.about[0].address % 8;
	result->processes++;
}

unsigned int locals_registers(const struct locals *locals)
{
	unsigned int count = locals ? locals->group_count : 0;

	for (unsigned int i = 0; locals && i < locals->slot_count; i++)
		count += locals->groups[locals->slots[i].group].asked.count;
	return count;
}

uint64_t locals_numbers(const struct locals *locals)
{
	return locals ? locals->numbers : 0;
}

void locals_module_gone(struct locals *locals, struct wm_session *session, uint64_t base)
{
	for (unsigned int i = 0; locals && i < locals->group_count; i++)
		if (locals->groups[i].module == base)
			watched_result(session, locals->groups[i].spec)
				->lost = -WM_E_WATCH_LOCAL_GONE;
}

static void close_all(struct locals *locals)
{
	for (unsigned int i = 0; i < locals->slot_count; i++) {
		perf_object_release(locals->slots[i].object);
		locals->slots[i].object = NULL;
	}
	for (unsigned int i = 0; i < locals->group_count; i++) {
		perf_object_release(locals->groups[i].entry);
		locals->groups[i].entry = NULL;
	}
}

void locals_release(struct locals *locals)
{
	if (!locals)
		return;
	locals_quiet(locals);
	close_all(locals);
	for (unsigned int i = 0; i < locals->group_count; i++)
		free(locals->groups[i].text);
	pthread_mutex_destroy(&locals->lock);
	free(locals);
}

static void unask(struct locals *locals, struct process *process, uint32_t number)
{
	struct control_unwatch one = { number, number };
	struct iovec part = { &one, sizeof(one) };

	if (locals->numbers & UINT64_C(1) << number && process->link.fd >= 0)
		process_request(process, CONTROL_UNWATCH, &part, 1);
	locals->numbers &= ~(UINT64_C(1) << number);
}

void locals_unask(struct locals *locals, struct process *process)
{
	/* entries first: after that no thread waits for a frame's watches */
	for (unsigned int i = 0; locals && i < locals->group_count; i++)
		unask(locals, process, locals->groups[i].number);
	for (uint32_t number = 0; locals && number < WATCH_ROWS_MAX; number++)
		unask(locals, process, number);
}

static int is_told(void *data)
{
	struct locals *locals = data;
	struct watch_counts counts = { 0 };

	for (unsigned int i = 0; i < locals->group_count; i++)
		locals_count(locals, locals->groups[i].spec, &counts);
	return !counts.missed;
}

static void count_starved(const struct locals *locals, struct wm_session *session)
{
	for (unsigned int i = 0; i < locals->slot_count; i++) {
		const struct slot *slot = &locals->slots[i];
		const struct group *group = &locals->groups[slot->group];

		struct watched_spec *watch = watched_result(session, group->spec);

		for (unsigned int j = 0; j < group->asked.count && slot->object; j++)
			watch->counts.starved += perf_object_starved(slot->object, j);
	}
	for (unsigned int i = 0; i < locals->group_count; i++)
		if (locals->groups[i].entry)
			watched_result(session, locals->groups[i].spec)
				->counts.starved += perf_object_starved(locals->groups[i].entry, 0);
}

void locals_end(struct locals *locals, struct wm_session *session, struct process *process, int why)
{
	if (!locals)
		return;
	locals_quiet(locals);
	pending_hits_wait(process, is_told, locals);
	for (uint32_t number = 0; number < WATCH_ROWS_MAX; number++)
		if (locals->numbers & UINT64_C(1) << number)
			locals->table->rows[number].gate = WATCH_OFF;
	for (unsigned int i = 0; i < locals->group_count; i++) {
		struct watched_spec *result = watched_result(session, locals->groups[i].spec);

		locals_count(locals, locals->groups[i].spec, &result->counts);
		result->lost = why ? why : result->lost;
	}
	count_starved(locals, session);
	close_all(locals);
	locals_unask(locals, process);
	locals_release(locals);
}

/*
 * The thread that moves watches to frames (abi/frame.h). The thread of each new frame waits for it.
 */

#define NOBODY_KNOWS UINT64_MAX
#define CFA_MAX (UINT64_C(1) << 47)
#define PARK_AFTER_MS 5
#define LOOK_MS 200

/*
 * Parked addresses, below vm.mmap_min_addr: a program that accesses them crashes. Each piece of
 * each frame has its own.
 */
#define PARKED(frame, piece) (64u + 64u * (frame) + 8u * (piece))

static long locals_futex(uint32_t *word, int what, uint32_t value, const struct timespec *time)
{
	return syscall(SYS_futex, word, what, value, time, NULL, 0);
}

/*
 * Set a piece's old value, then its gate. In a new frame memory has a leftover value, except for an
 * argument on the stack, which the caller has stored: only that is a known old value.
 */
static void settle_piece(const struct slot *slot, unsigned int piece, uint32_t gate)
{
	const struct control_watch *about = &slot->of->groups[slot->group].asked.about[piece];
	struct watch_row *row = &slot->of->table->rows[number_of(slot, piece)];
	uint64_t value = 0, address = slot->cfa + about->address;
	struct iovec local = { &value, about->bytes };
	struct iovec remote = { (void *)(uintptr_t)address, about->bytes };
	int is_known = slot->cfa && (int64_t)about->address >= 0 &&
		       process_vm_readv(slot->of->pid, &local, 1, &remote, 1, 0) == about->bytes;

	row->last.value = is_known ? value : 0;
	row->last.ticks = is_known ? 0 : NOBODY_KNOWS;
	__atomic_store_n(&row->gate, gate, __ATOMIC_RELEASE);
}

/*
 * An object's settle(). All threads have the frame's watches now: ASKED -> LIVE. Or all watches are
 * parked: OVER -> FREE.
 */
static int locals_settle(void *data, uint8_t generation)
{
	struct slot *slot = data;
	const struct group *group = &slot->of->groups[slot->group];
	uint32_t gate = slot->cfa ? WATCH_GATE(generation, WATCH_ON) : WATCH_OFF;
	uint32_t from = slot->for_state, to = FRAME_TO(from, slot->cfa ? FRAME_LIVE : FRAME_FREE);
	uint32_t *state = &row_of(slot)->state;

	for (unsigned int i = 0; i < group->asked.count; i++)
		settle_piece(slot, i, gate);
	if (!slot->cfa && FRAME_STEP(from) != FRAME_OVER)
		return 0;
	if (__atomic_compare_exchange_n(state, &from, to, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
		slot->of->groups[slot->group].lived += slot->cfa && slot->is_living;
		slot->is_living = 0;
		locals_futex(state, FUTEX_WAKE, INT_MAX, NULL);
	} else
		for (unsigned int i = 0; i < group->asked.count; i++)
			settle_piece(slot, i, WATCH_OFF);
	return 0;
}

/* The events of a slot's watches at its present cfa, or at the parked addresses. */
static void locals_sources(const struct slot *slot, struct event_source sources[WATCH_REGISTERS])
{
	const struct group *group = &slot->of->groups[slot->group];

	for (unsigned int i = 0; i < group->asked.count; i++) {
		const struct control_watch *about = &group->asked.about[i];

		sources[i] = (struct event_source){
			.kind = (enum event_kind)group->kind,
			.bytes = about->bytes,
			.address = slot->cfa ? slot->cfa + about->address : PARKED(slot->frame, i),
			.sig_data = WATCH_COOKIE(slot->of->magic, number_of(slot, i), 0),
			.what = group->text,
		};
	}
}

/* Move a slot's watches to the frame with that CFA, or park them (cfa 0). */
static void move(struct slot *slot, uint32_t state, uint64_t cfa)
{
	struct event_source sources[WATCH_REGISTERS];
	int err = cfa >= CFA_MAX ? -EINVAL : 0;

	slot->for_state = state;
	slot->cfa = err ? 0 : cfa;
	locals_sources(slot, sources);
	if (!err)
		err = perf_object_modify(slot->object, sources, EVENT_MODIFY_RUNNING, NULL,
					 (struct detail){ 0 });
	slot->is_parked = err || !slot->cfa;
	slot->is_dead = perf_object_state(slot->object) != EVENT_ARMED;
	/*
	 * let a waiting thread continue unwatched; if the event object is dead, no thread may wait
	 * again
	 */
	if (slot->is_dead) {
		__atomic_store_n(&row_of(slot)->state, FRAME_TO(state, FRAME_TAKEN),
				 __ATOMIC_SEQ_CST);
		locals_futex(&row_of(slot)->state, FUTEX_WAKE, INT_MAX, NULL);
	} else if (err && cfa && FRAME_STEP(state) == FRAME_ASKED &&
		   __atomic_compare_exchange_n(&row_of(slot)->state, &state,
					       FRAME_TO(state, FRAME_OVER), 0, __ATOMIC_SEQ_CST,
					       __ATOMIC_SEQ_CST))
		locals_futex(&row_of(slot)->state, FUTEX_WAKE, INT_MAX, NULL);
}

/* Whether another slot's registers overlap the bytes that the frame's watches will have. */
static int is_in_the_way(const struct slot *other, const struct slot *slot, uint64_t cfa)
{
	const struct asked_watch *its = &other->of->groups[other->group].asked;
	const struct asked_watch *wanted = &slot->of->groups[slot->group].asked;
	uint64_t from = other->cfa + its->about[0].address;
	uint64_t to = cfa + wanted->about[0].address;
	const struct control_watch *last = &its->about[its->count - 1];
	const struct control_watch *wanted_last = &wanted->about[wanted->count - 1];

	return other != slot && !other->is_parked && !other->is_dead &&
	       from < cfa + wanted_last->address + wanted_last->bytes &&
	       to < other->cfa + last->address + last->bytes;
}

/*
 * Park leftover watches of an earlier frame at the same stack address. If an instruction fires two
 * events, the thread gets one signal, which must not be that of the old frame.
 */
static void clear_way(const struct slot *slot, uint64_t cfa)
{
	for (unsigned int i = 0; i < slot->of->slot_count; i++) {
		struct slot *other = &slot->of->slots[i];
		uint32_t state = __atomic_load_n(&row_of(other)->state, __ATOMIC_SEQ_CST);

		if (is_in_the_way(other, slot, cfa) && FRAME_STEP(state) != FRAME_LIVE)
			move(other, state, 0);
	}
}

/* Do what a slot needs. Returns whether there was something. */
static int serve(struct slot *slot, unsigned int passed_ms)
{
	struct frame_row *row = row_of(slot);
	uint32_t state = __atomic_load_n(&row->state, __ATOMIC_SEQ_CST);
	uint64_t cfa;

	if (slot->is_dead)
		return 0;
	switch (FRAME_STEP(state)) {
	case FRAME_ASKED:
		slot->idle_ms = 0;
		cfa = row->cfa;
		clear_way(slot, cfa);
		move(slot, state, cfa);
		return 1;
	case FRAME_LIVE:
		slot->idle_ms = 0;
		return 0;
	case FRAME_OVER:
		/* don't park at once: if the next frame comes soon, one move suffices */
		slot->idle_ms += passed_ms;
		if (slot->is_parked || slot->idle_ms < PARK_AFTER_MS)
			return 0;
		move(slot, state, 0);
		return 1;
	default:
		return 0;
	}
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int has_unparked(const struct locals *locals)
{
	for (unsigned int i = 0; i < locals->slot_count; i++)
		if (!locals->slots[i].is_parked &&
		    FRAME_STEP(row_of(&locals->slots[i])->state) == FRAME_OVER)
			return 1;
	return 0;
}

static void *serve_all(void *data)
{
	struct locals *locals = data;
	struct frame_table *table = &locals->table->frames;
	int64_t last_ms = now_ms();

	while (!__atomic_load_n(&locals->is_ending, __ATOMIC_SEQ_CST)) {
		uint32_t asked = __atomic_load_n(&table->asked, __ATOMIC_SEQ_CST);
		int64_t at_ms = now_ms();
		struct timespec time = { 0 };
		int any = 0;

		pthread_mutex_lock(&locals->lock);
		for (unsigned int i = 0; i < locals->slot_count; i++)
			any |= serve(&locals->slots[i], (unsigned int)(at_ms - last_ms));
		time.tv_nsec = 1000000L * (has_unparked(locals) ? PARK_AFTER_MS : LOOK_MS);
		pthread_mutex_unlock(&locals->lock);
		last_ms = at_ms;
		__atomic_store_n(&table->is_late, 0, __ATOMIC_RELAXED);
		if (!any)
			locals_futex(&table->asked, FUTEX_WAIT, asked, &time);
	}
	return NULL;
}

/* The session's other thread takes no signals of the process. */
static int locals_serve(struct locals *locals)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = -pthread_create(&locals->thread, NULL, serve_all, locals);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	locals->has_thread = !err;
	return err;
}

static void locals_serve_no_more(struct locals *locals)
{
	if (!locals->has_thread)
		return;
	__atomic_store_n(&locals->is_ending, 1, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&locals->table->frames.asked, 1, __ATOMIC_SEQ_CST);
	locals_futex(&locals->table->frames.asked, FUTEX_WAKE, INT_MAX, NULL);
	pthread_join(locals->thread, NULL);
	locals->has_thread = 0;
}
/* as aligned as each CFA is, so that the pieces are the same */
#define CFA_FOR_PIECES (UINT64_C(1) << 40)

/* ---- which variables are wanted ---- */

static void add_base(struct frame_place *place, uint64_t base)
{
	place->entry += base;
	for (unsigned int i = 0; i < FRAME_PLACES_MAX; i++) {
		place->code[i].start += base;
		place->code[i].end += base;
		place->valid[i].start += base;
		place->valid[i].end += base;
	}
}

int locals_want(struct locals **locals, size_t spec, const char *text,
		const struct watch_expr *expr, const struct watch_place *place,
		struct watch_trouble *trouble)
{
	struct group *group;
	int err;

	if (!*locals) {
		*locals = calloc(1, sizeof(**locals));
		if (!*locals)
			return -ENOMEM;
		pthread_mutex_init(&(*locals)->lock, NULL);
	}
	if ((*locals)->group_count == FRAME_GROUPS_MAX)
		return expression_trouble_set(trouble, -WM_E_WATCH_LARGE, 0, 0,
					      "%u local variables at once", FRAME_GROUPS_MAX + 1);
	group = &(*locals)->groups[(*locals)->group_count];
	err = ask_make(&group->asked, expr, place, CFA_FOR_PIECES + place->start, trouble);
	if (err)
		return err;
	group->text = strdup(text);
	if (!group->text)
		return -ENOMEM;
	group->spec = spec;
	group->kind = place->kind;
	group->place = *place->frame;
	group->module = location_is_program(place->module->file) ? 0 : place->module->base;
	add_base(&group->place, place->module->base);
	for (unsigned int i = 0; i < group->asked.count; i++) {
		group->asked.about[i].address -= CFA_FOR_PIECES;
		group->asked.about[i].flags |= WATCH_OF_FRAME;
	}
	(*locals)->group_count++;
	return 0;
}

/* Give each variable one frame, then further ones in turn, as long as registers suffice. */
static int share_out(struct locals *locals, unsigned int taken, struct detail words)
{
	unsigned int used = taken + locals->group_count, any = 1;

	for (unsigned int round = 0; any; round++) {
		any = 0;
		for (unsigned int i = 0; i < locals->group_count; i++) {
			struct group *group = &locals->groups[i];

			if (used + group->asked.count > EVENT_SOURCES_MAX ||
			    locals->slot_count == FRAMES_MAX) {
				if (round)
					continue;
				return detail_set(
					words, -WM_E_WATCH_LARGE,
					"%s: a local variable takes one register for its function's entry, "
					"and %u for each frame",
					group->text, group->asked.count);
			}
			locals->slots[locals->slot_count] = (struct slot){
				.of = locals, .group = i, .frame = locals->slot_count
			};
			locals->slot_count++;
			group->frames++;
			used += group->asked.count;
			any = 1;
		}
	}
	return 0;
}

static int ask(struct process *process, const struct control_watch *about, const char *text)
{
	struct control_watch copy = *about;
	struct iovec parts[] = { { &copy, sizeof(copy) }, { (char *)text, strlen(text) + 1 } };

	return process_request(process, CONTROL_WATCH, parts, *text ? 2 : 1);
}

static uint32_t take_number(struct finding *finding)
{
	uint32_t number = watch_finding_number(finding);

	finding->locals->numbers |= UINT64_C(1) << number;
	return number;
}

static int ask_slot(struct finding *finding, struct slot *slot, const struct slot *first)
{
	const struct group *group = &slot->of->groups[slot->group];
	uint8_t set = finding->process->watch.sets++;
	int has_event = group->asked.text[0] != 0, err = 0;

	for (unsigned int i = 0; i < group->asked.count && !err; i++) {
		struct control_watch about = group->asked.about[i];

		slot->numbers[i] = take_number(finding);
		about.number = slot->numbers[i];
		about.magic = slot->of->magic;
		about.set = set;
		about.group = (uint8_t)slot->group;
		about.frame = (uint8_t)slot->frame;
		about.event = (uint16_t)(has_event ? number_of(first, 0) : about.number);
		err = ask(finding->process, &about,
			  has_event && slot == first && !i ? group->asked.text : "");
	}
	return err;
}

static int ask_group(struct finding *finding, unsigned int index)
{
	struct locals *locals = finding->locals;
	struct group *group = &locals->groups[index];
	struct control_watch about = {
		.magic = locals->magic,
		.address = group->place.entry,
		.bytes = 1,
		.type = WM_TYPE_U8, /* unused: it makes no event */
		.on = WATCH_ON_EXECUTE,
		.flags = WATCH_FRAME_ENTRY | WATCH_COUNT_ONLY,
		.set = finding->process->watch.sets++,
		.group = (uint8_t)index,
	};
	struct slot *first = NULL;
	int err;

	group->number = take_number(finding);
	about.number = group->number;
	about.event = (uint16_t)group->number;
	err = ask(finding->process, &about, "");
	for (unsigned int i = 0; i < locals->slot_count && !err; i++) {
		if (locals->slots[i].group != index)
			continue;
		first = first ? first : &locals->slots[i];
		err = ask_slot(finding, &locals->slots[i], first);
	}
	return err;
}

int locals_ask(struct finding *finding, unsigned int taken)
{
	struct watch_table *table = finding->process->watch.table;
	struct locals *locals = finding->locals;
	char words[256] = "";
	int err = share_out(locals, taken, (struct detail){ words, sizeof(words) });

	if (err)
		return session_fail(finding->session, err, "%s", words);
	locals->magic = finding->process->watch.magic;
	if (table) /* from earlier local variables */
		memset(&table->frames, 0, sizeof(table->frames));
	for (unsigned int i = 0; i < locals->group_count && !err; i++)
		err = ask_group(finding, i);
	return err;
}

/* ---- frames that exist ---- */

#define LIVING_MAX 1024

struct found_living {
	struct living frame;
	unsigned int group;
	unsigned int rank; /* how many inner frames of this function the thread has */
};

struct gathering {
	const struct locals *locals;
	struct found_living all[LIVING_MAX];
	unsigned int count, more;
};

static int is_code_of(const struct group *group, uint64_t pc)
{
	for (unsigned int i = 0; i < group->place.code_count; i++)
		if (pc >= group->place.code[i].start && pc < group->place.code[i].end)
			return 1;
	return 0;
}

static void gather(const struct living *living, void *data)
{
	struct gathering *gathering = data;

	for (unsigned int i = 0; i < gathering->locals->group_count; i++) {
		unsigned int rank = 0;

		if (!is_code_of(&gathering->locals->groups[i], living->pc))
			continue;
		if (gathering->count == LIVING_MAX) {
			gathering->more++;
			continue;
		}
		for (unsigned int j = 0; j < gathering->count; j++)
			rank += gathering->all[j].group == i &&
				gathering->all[j].frame.tid == living->tid;
		gathering->all[gathering->count++] = (struct found_living){ *living, i, rank };
	}
}

static int give_living(struct process *process, struct locals *locals,
		       const struct found_living *found, unsigned int *given)
{
	struct control_watch about = {
		.number = locals->groups[found->group].number,
		.magic = locals->magic,
		.address = found->frame.cfa,
		.offset = (uint32_t)found->frame.tid,
		.flags = WATCH_FRAME_LIVES,
	};

	for (unsigned int i = 0; i < locals->slot_count; i++) {
		if (locals->slots[i].group != found->group || *given & 1u << i)
			continue;
		*given |= 1u << i;
		locals->slots[i].is_living = 1;
		about.frame = (uint8_t)i;
		return ask(process, &about, "");
	}
	locals->groups[found->group].unplaced++;
	return 0;
}

/* Each thread's innermost frames first, then those farther out. */
int locals_ask_living(struct finding *finding)
{
	struct gathering *gathering = calloc(1, sizeof(*gathering));
	struct process *process = finding->process;
	struct locals *locals = finding->locals;
	unsigned int given = 0, left;
	int err = 0;

	if (!gathering)
		return -ENOMEM;
	gathering->locals = locals;
	locals->unlooked = living_find(process->pid, finding->list.modules,
				       finding->list.module_count, gather, gathering);
	left = gathering->count;
	for (unsigned int rank = 0; left && !err; rank++)
		for (unsigned int i = 0; i < gathering->count && !err; i++)
			if (gathering->all[i].rank == rank) {
				err = give_living(process, locals, &gathering->all[i], &given);
				left--;
			}
	free(gathering);
	return err;
}

/* ---- arming ---- */

/* Nothing to do: open_entry() opens the gate when everything is armed. */
static int settle_entry(void *data, uint8_t generation)
{
	(void)data;
	(void)generation;
	return 0;
}

static int arm_object(struct locals *locals, struct perf_object **object,
		      const struct event_source *sources, unsigned int count,
		      int (*settle)(void *data, uint8_t generation), void *data,
		      struct ledger *ledger, struct detail words)
{
	struct event_request request = {
		.scope = EVENT_PROCESS,
		.flags = EVENT_SIGNAL,
		.pid = locals->pid,
		.sources = sources,
		.source_count = count,
		.ledger = ledger,
		.settle = settle,
		.settle_data = data,
	};
	int err = perf_object_new(object, &request, words);

	if (!err)
		err = perf_object_arm(*object, words);
	if (err) {
		perf_object_release(*object);
		*object = NULL;
	}
	return err;
}

static int arm_slot(struct slot *slot, struct ledger *ledger, struct detail words)
{
	struct event_source sources[WATCH_REGISTERS];

	slot->is_parked = 1;
	locals_sources(slot, sources);
	return arm_object(slot->of, &slot->object, sources,
			  slot->of->groups[slot->group].asked.count, locals_settle, slot, ledger,
			  words);
}

static int arm_entry(struct locals *locals, unsigned int group, struct ledger *ledger,
		     struct detail words)
{
	uint32_t number = locals->groups[group].number;
	struct event_source source = {
		.kind = EVENT_EXECUTE,
		.address = locals->groups[group].place.entry,
		.sig_data = WATCH_COOKIE(locals->magic, number, 0),
		.what = locals->groups[group].text,
	};

	return arm_object(locals, &locals->groups[group].entry, &source, 1, settle_entry, NULL,
			  ledger, words);
}

/* Tell the agent each function's code ranges. It reads them only for frames that are LIVE. */
static void tell_code(struct locals *locals)
{
	for (unsigned int i = 0; i < locals->group_count; i++) {
		const struct frame_place *place = &locals->groups[i].place;
		struct frame_group *group = &locals->table->frames.groups[i];

		for (unsigned int j = 0; j < place->code_count; j++) {
			group->code[j][0] = place->code[j].start;
			group->code[j][1] = place->code[j].end;
		}
		for (unsigned int j = 0; j < place->valid_count; j++) {
			group->valid[j][0] = place->valid[j].start;
			group->valid[j][1] = place->valid[j].end;
		}
		group->entry = place->entry;
		group->code_count = place->code_count;
		group->valid_count = place->valid_count;
	}
}

/* The slot has no register: mark it taken, so that no thread waits for it. */
static void shut(const struct slot *slot)
{
	uint32_t state = __atomic_load_n(&row_of(slot)->state, __ATOMIC_SEQ_CST);

	if (FRAME_STEP(state) == FRAME_ASKED)
		slot->of->groups[slot->group].unplaced++;
	__atomic_store_n(&row_of(slot)->state, FRAME_TO(state, FRAME_TAKEN), __ATOMIC_SEQ_CST);
}

/* Until everything is armed, hits of the entries are dropped. */
static void open_entry(struct locals *locals, unsigned int group)
{
	struct watch_row *row = &locals->table->rows[locals->groups[group].number];

	__atomic_store_n(&row->gate, WATCH_GATE(0, WATCH_ON), __ATOMIC_RELEASE);
}

int locals_arm(struct locals *locals, pid_t pid, struct watch_table *table, struct ledger *ledger,
	       struct detail words)
{
	int err = 0;

	locals->pid = pid;
	locals->table = table;
	tell_code(locals);
	for (unsigned int i = 0; i < locals->group_count && !err; i++)
		err = arm_entry(locals, i, ledger, words);
	for (unsigned int i = 0; i < locals->slot_count && !err; i++) {
		err = arm_slot(&locals->slots[i], ledger, words);
		/*
		 * without a register for it; each variable's first frame comes before any second
		 * one
		 */
		if (err == -WM_E_EVENT_TAKEN && i >= locals->group_count) {
			for (unsigned int j = i; j < locals->slot_count; j++)
				shut(&locals->slots[j]);
			locals->slot_count = i;
			err = 0;
		}
	}
	if (!err)
		err = locals_serve(locals);
	for (unsigned int i = 0; i < locals->group_count && !err; i++)
		open_entry(locals, i);
	return err;
}
