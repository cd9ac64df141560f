/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "session/watch/locals.h"

#include "code/watch/frame.h"
#include "session/event/object.h"

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

#define PIECES_NUMBER (LOCALS_FIRST_NUMBER + FRAME_GROUPS_MAX)
#define NOBODY_KNOWS UINT64_MAX
#define CFA_FOR_PIECES (UINT64_C(1) << 40) /* aligned as each CFA is, so the pieces are those of any */
#define CFA_MAX (UINT64_C(1) << 47)
#define PARK_AFTER_MS 5
#define LOOK_MS 200

/*
 * Below what the kernel lets programs map (vm.mmap_min_addr): hit by nobody who lives on. Each piece's own, by its
 * frame.
 */
#define PARKED(frame, piece) (64u + 64u * (frame) + 8u * (piece))

/* One variable. */
struct group {
	size_t spec;
	char *text;
	enum watch_kind kind;
	struct frame_place place;
	struct asked_watch asked; /* addresses from the CFA */
	struct event_object *entry;
	unsigned int frames; /* it has */
};

/* One frame's watches. */
struct slot {
	struct locals *of;
	unsigned int group, frame;
	struct event_object *object;
	uint32_t for_state; /* the state that its watches are being moved for */
	uint64_t cfa;	    /* 0: parked */
	int is_parked, is_dead;
	unsigned int idle_ms;
};

struct locals {
	struct group groups[FRAME_GROUPS_MAX];
	unsigned int group_count;
	struct slot slots[FRAMES_MAX];
	unsigned int slot_count;
	uint32_t magic;
	pid_t pid;
	struct watch_table *table;
	pthread_mutex_t lock; /* slots and their objects, while the thread runs */
	pthread_t thread;
	int has_thread, is_ending;
};

static struct frame_row *row_of(const struct slot *slot)
{
	return &slot->of->table->frames.rows[slot->frame];
}

static unsigned int number_of(const struct slot *slot, unsigned int piece)
{
	return PIECES_NUMBER + slot->frame * WATCH_REGISTERS + piece;
}

static long futex(uint32_t *word, int what, uint32_t value, const struct timespec *time)
{
	return syscall(SYS_futex, word, what, value, time, NULL, 0);
}

/* ---- what is wanted ---- */

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

int locals_want(struct locals **locals, size_t spec, const char *text, const struct watch_expr *expr,
		const struct watch_place *place, struct watch_trouble *trouble)
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
		return watch_trouble_set(trouble, -WM_E_WATCH_LARGE, 0, 0,
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
	add_base(&group->place, place->module->base);
	for (unsigned int i = 0; i < group->asked.count; i++) {
		group->asked.about[i].address -= CFA_FOR_PIECES;
		group->asked.about[i].flags |= WATCH_OF_FRAME;
	}
	(*locals)->group_count++;
	return 0;
}

/* One frame for each variable, then as many as there is room for, in turn. */
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

static int ask_slot(struct locals *locals, const struct slot *slot, const struct slot *first,
		    int (*ask)(void *data, const struct control_watch *about, const char *text),
		    void *data)
{
	const struct group *group = &locals->groups[slot->group];
	int err = 0;

	for (unsigned int i = 0; i < group->asked.count && !err; i++) {
		struct control_watch about = group->asked.about[i];
		int has_event = group->asked.text[0] != 0;

		about.number = number_of(slot, i);
		about.magic = locals->magic;
		about.group = (uint8_t)slot->group;
		about.frame = (uint8_t)slot->frame;
		about.event = (uint16_t)(has_event ? number_of(first, 0) : about.number);
		err = ask(data, &about, has_event && slot == first && !i ? group->asked.text : "");
	}
	return err;
}

int locals_ask(struct locals *locals, unsigned int taken, uint32_t magic,
	       int (*ask)(void *data, const struct control_watch *about, const char *text), void *data,
	       struct detail words)
{
	int err = share_out(locals, taken, words);

	locals->magic = magic;
	for (unsigned int i = 0; i < locals->group_count && !err; i++) {
		struct control_watch about = {
			.number = LOCALS_FIRST_NUMBER + i,
			.event = (uint16_t)(LOCALS_FIRST_NUMBER + i),
			.magic = magic,
			.address = locals->groups[i].place.entry,
			.bytes = 1,
			.type = WM_TYPE_U8, /* nothing is told */
			.on = WATCH_ON_EXECUTE,
			.flags = WATCH_FRAME_ENTRY | WATCH_COUNT_ONLY,
			.group = (uint8_t)i,
		};
		const struct slot *first = NULL;

		err = ask(data, &about, "");
		for (unsigned int j = 0; j < locals->slot_count && !err; j++) {
			if (locals->slots[j].group != i)
				continue;
			first = first ? first : &locals->slots[j];
			err = ask_slot(locals, &locals->slots[j], first, ask, data);
		}
	}
	return err;
}

/* ---- giving a frame its watches ---- */

/* What stands in a new frame is whatever was there before; an argument on the stack has been put there by the caller. */
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

/* All threads have the frame's watches: ASKED -> LIVE. Or all are parked: OVER -> FREE. */
static int settle_slot(void *data, uint8_t generation)
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
	if (__atomic_compare_exchange_n(state, &from, to, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		futex(state, FUTEX_WAKE, INT_MAX, NULL);
	else
		for (unsigned int i = 0; i < group->asked.count; i++)
			settle_piece(slot, i, WATCH_OFF);
	return 0;
}

static void make_sources(const struct slot *slot, struct event_source sources[WATCH_REGISTERS])
{
	const struct group *group = &slot->of->groups[slot->group];

	for (unsigned int i = 0; i < group->asked.count; i++) {
		const struct control_watch *about = &group->asked.about[i];

		sources[i] = (struct event_source){
			.kind = group->kind == WATCH_READ_WRITE ? EVENT_READ_WRITE : EVENT_WRITE,
			.bytes = about->bytes,
			.address = slot->cfa ? slot->cfa + about->address : PARKED(slot->frame, i),
			.sig_data = WATCH_COOKIE(slot->of->magic, number_of(slot, i), 0, 0),
			.what = group->text,
		};
	}
}

/* Its watches go to where the frame has its variable, or (cfa 0) are parked. */
static void move(struct slot *slot, uint32_t state, uint64_t cfa)
{
	struct event_source sources[WATCH_REGISTERS];
	int err = cfa >= CFA_MAX ? -EINVAL : 0;

	slot->for_state = state;
	slot->cfa = err ? 0 : cfa;
	make_sources(slot, sources);
	if (!err)
		err = event_object_modify(slot->object, sources, EVENT_MODIFY_RUNNING, NULL,
					  (struct detail){ 0 });
	slot->is_parked = err || !slot->cfa;
	slot->is_dead = event_object_state(slot->object) != EVENT_ARMED;
	/* who waits goes on unwatched */
	if (err && cfa && FRAME_STEP(state) == FRAME_ASKED &&
	    __atomic_compare_exchange_n(&row_of(slot)->state, &state,
					FRAME_TO(state, FRAME_OVER), 0, __ATOMIC_SEQ_CST,
					__ATOMIC_SEQ_CST))
		futex(&row_of(slot)->state, FUTEX_WAKE, INT_MAX, NULL);
}

/* Whether its registers, as they stand, meet the bytes that a frame's watches are to have. */
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
 * What is left of a frame before at the same place of the stack goes first: of two events that an instruction fires the
 * thread is told one, and it is not to be that one.
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

/* Returns whether something was done. */
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
		/* the next frame may come at once, and then it is one move instead of two */
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
			futex(&table->asked, FUTEX_WAIT, asked, &time);
	}
	return NULL;
}

/* ---- arming ---- */

static int settle_entry(void *data, uint8_t generation)
{
	uint32_t *gate = data;

	__atomic_store_n(gate, WATCH_GATE(generation, WATCH_ON), __ATOMIC_RELEASE);
	return 0;
}

static int arm_object(struct locals *locals, struct event_object **object,
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
	int err = event_object_new(object, &request, words);

	if (!err)
		err = event_object_arm(*object, words);
	if (err) {
		event_object_release(*object);
		*object = NULL;
	}
	return err;
}

static int arm_slot(struct slot *slot, struct ledger *ledger, struct detail words)
{
	struct event_source sources[WATCH_REGISTERS];

	slot->is_parked = 1;
	make_sources(slot, sources);
	return arm_object(slot->of, &slot->object, sources,
			  slot->of->groups[slot->group].asked.count, settle_slot, slot, ledger,
			  words);
}

static int arm_entry(struct locals *locals, unsigned int group, struct ledger *ledger,
		     struct detail words)
{
	unsigned int number = LOCALS_FIRST_NUMBER + group;
	struct event_source source = {
		.kind = EVENT_EXECUTE,
		.address = locals->groups[group].place.entry,
		.sig_data = WATCH_COOKIE(locals->magic, number, 0, 0),
		.what = locals->groups[group].text,
	};

	return arm_object(locals, &locals->groups[group].entry, &source, 1, settle_entry,
			  &locals->table->rows[number].gate, ledger, words);
}

/* Where its instructions are, for the agent: what is not LIVE is looked at by nobody. */
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

/* The session's other thread takes no signal of its. */
static int start(struct locals *locals)
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

int locals_arm(struct locals *locals, pid_t pid, struct watch_table *table, struct ledger *ledger,
	       struct detail words)
{
	int err = 0;

	locals->pid = pid;
	locals->table = table;
	tell_code(locals);
	for (unsigned int i = 0; i < locals->slot_count && !err; i++) {
		struct slot *slot = &locals->slots[i];

		err = arm_slot(slot, ledger, words);
		/* each variable has its first frame before any has its second */
		if (err == -WM_E_EVENT_TAKEN && i >= locals->group_count) {
			locals->slot_count = i;
			err = 0;
		}
	}
	if (!err)
		err = start(locals);
	for (unsigned int i = 0; i < locals->group_count && !err; i++)
		err = arm_entry(locals, i, ledger, words);
	return err;
}

/* ---- ending ---- */

static void stop(struct locals *locals)
{
	if (!locals->has_thread)
		return;
	__atomic_store_n(&locals->is_ending, 1, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&locals->table->frames.asked, 1, __ATOMIC_SEQ_CST);
	futex(&locals->table->frames.asked, FUTEX_WAKE, INT_MAX, NULL);
	pthread_join(locals->thread, NULL);
	locals->has_thread = 0;
}

static void let_go(const struct slot *slot)
{
	uint32_t *state = &row_of(slot)->state, now = __atomic_load_n(state, __ATOMIC_SEQ_CST);

	if (FRAME_STEP(now) == FRAME_ASKED)
		__atomic_compare_exchange_n(state, &now, FRAME_TO(now, FRAME_OVER), 0,
					    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	futex(state, FUTEX_WAKE, INT_MAX, NULL);
}

void locals_quiet(struct locals *locals)
{
	for (unsigned int i = 0; i < locals->group_count; i++)
		if (locals->groups[i].entry)
			event_object_quiet(locals->groups[i].entry);
	stop(locals);
	for (unsigned int i = 0; i < locals->slot_count; i++) {
		if (locals->table)
			let_go(&locals->slots[i]);
		if (locals->slots[i].object)
			event_object_quiet(locals->slots[i].object);
	}
}

static void count_slot(const struct slot *slot, struct watch_counts *counts)
{
	const struct group *group = &slot->of->groups[slot->group];

	for (unsigned int i = 0; i < group->asked.count && slot->object; i++) {
		const struct watch_row *row = &slot->of->table->rows[number_of(slot, i)];
		uint64_t hits = 0;

		event_object_count(slot->object, i, &hits);
		watch_counts_add(counts, row, hits);
	}
}

void locals_count(struct locals *locals, size_t spec, struct watch_counts *counts)
{
	pthread_mutex_lock(&locals->lock);
	for (unsigned int i = 0; i < locals->group_count && locals->table; i++) {
		const struct frame_group *from = &locals->table->frames.groups[i];

		if (locals->groups[i].spec != spec)
			continue;
		counts->frames.entered += from->entered;
		counts->frames.watched += from->watched;
		counts->frames.busy += from->busy;
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

int locals_describe(const struct locals *locals, size_t spec, struct watched_spec *result)
{
	for (unsigned int i = 0; i < locals->group_count; i++) {
		const struct group *group = &locals->groups[i];

		if (group->spec != spec)
			continue;
		result->is_local = 1;
		result->frames = group->frames;
		return 1;
	}
	return 0;
}

void locals_release(struct locals *locals)
{
	if (!locals)
		return;
	locals_quiet(locals);
	for (unsigned int i = 0; i < locals->slot_count; i++)
		event_object_release(locals->slots[i].object);
	for (unsigned int i = 0; i < locals->group_count; i++) {
		event_object_release(locals->groups[i].entry);
		free(locals->groups[i].text);
	}
	pthread_mutex_destroy(&locals->lock);
	free(locals);
}
