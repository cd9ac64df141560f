/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "session/process.h"
#include "session/session.h"
#include "session/watch/living.h"
#include "session/watch/locals_own.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <waymark/error.h>
#include <waymark/marker.h>

#define CFA_FOR_PIECES                                                                             \
	(UINT64_C(1) << 40) /* aligned as each CFA is, so the pieces are those of any */

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

struct asking {
	struct process *process;
	int *is_asked;
};

static int ask(const struct asking *asking, const struct control_watch *about, const char *text)
{
	struct control_watch copy = *about;
	struct iovec parts[] = { { &copy, sizeof(copy) }, { (char *)text, strlen(text) + 1 } };
	int err = process_request(asking->process, CONTROL_WATCH, parts, *text ? 2 : 1);

	*asking->is_asked |= !err;
	return err;
}

static int ask_slot(const struct asking *asking, const struct slot *slot, const struct slot *first)
{
	const struct group *group = &slot->of->groups[slot->group];
	int has_event = group->asked.text[0] != 0, err = 0;

	for (unsigned int i = 0; i < group->asked.count && !err; i++) {
		struct control_watch about = group->asked.about[i];

		about.number = number_of(slot, i);
		about.magic = slot->of->magic;
		about.group = (uint8_t)slot->group;
		about.frame = (uint8_t)slot->frame;
		about.event = (uint16_t)(has_event ? number_of(first, 0) : about.number);
		err = ask(asking, &about,
			  has_event && slot == first && !i ? group->asked.text : "");
	}
	return err;
}

static int ask_group(const struct asking *asking, const struct locals *locals, unsigned int group)
{
	struct control_watch about = {
		.number = LOCALS_FIRST_NUMBER + group,
		.event = (uint16_t)(LOCALS_FIRST_NUMBER + group),
		.magic = locals->magic,
		.address = locals->groups[group].place.entry,
		.bytes = 1,
		.type = WM_TYPE_U8, /* nothing is told */
		.on = WATCH_ON_EXECUTE,
		.flags = WATCH_FRAME_ENTRY | WATCH_COUNT_ONLY,
		.group = (uint8_t)group,
	};
	const struct slot *first = NULL;
	int err = ask(asking, &about, "");

	for (unsigned int i = 0; i < locals->slot_count && !err; i++) {
		if (locals->slots[i].group != group)
			continue;
		first = first ? first : &locals->slots[i];
		err = ask_slot(asking, &locals->slots[i], first);
	}
	return err;
}

int locals_ask(struct locals *locals, struct wm_session *session, struct process *process,
	       unsigned int taken, uint32_t magic, int *is_asked)
{
	const struct asking asking = { process, is_asked };
	char words[256] = "";
	int err = share_out(locals, taken, (struct detail){ words, sizeof(words) });

	if (err)
		return session_fail(session, err, "%s", words);
	locals->magic = magic;
	for (unsigned int i = 0; i < locals->group_count && !err; i++)
		err = ask_group(&asking, locals, i);
	return err;
}

/* ---- frames that live ---- */

#define LIVING_MAX 1024

struct found_living {
	struct living frame;
	unsigned int group;
	unsigned int rank; /* how many of the group's are farther in, on the same thread */
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

static int give_living(const struct asking *asking, struct locals *locals,
		       const struct found_living *found, unsigned int *given)
{
	struct control_watch about = {
		.number = LOCALS_FIRST_NUMBER + found->group,
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
		return ask(asking, &about, "");
	}
	locals->groups[found->group].unplaced++;
	return 0;
}

/* The innermost of each thread first, then their callers. */
int locals_ask_living(struct locals *locals, struct process *process,
		      struct code_module *const *modules, size_t count)
{
	struct gathering *gathering = calloc(1, sizeof(*gathering));
	int is_asked = 0, err = 0;
	const struct asking asking = { process, &is_asked };
	unsigned int given = 0, left;

	if (!gathering)
		return -ENOMEM;
	gathering->locals = locals;
	locals->unlooked = living_find(process->pid, modules, count, gather, gathering);
	left = gathering->count;
	for (unsigned int rank = 0; left && !err; rank++)
		for (unsigned int i = 0; i < gathering->count && !err; i++)
			if (gathering->all[i].rank == rank) {
				err = give_living(&asking, locals, &gathering->all[i], &given);
				left--;
			}
	free(gathering);
	return err;
}

/* ---- arming ---- */

/* Its gate is opened when everything stands. */
static int settle_entry(void *data, uint8_t generation)
{
	(void)data;
	(void)generation;
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
	locals_sources(slot, sources);
	return arm_object(slot->of, &slot->object, sources,
			  slot->of->groups[slot->group].asked.count, locals_settle, slot, ledger,
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

	return arm_object(locals, &locals->groups[group].entry, &source, 1, settle_entry, NULL,
			  ledger, words);
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

/* What there is no register for, or no more, nobody is to wait for. */
static void shut(const struct slot *slot)
{
	uint32_t state = __atomic_load_n(&row_of(slot)->state, __ATOMIC_SEQ_CST);

	if (FRAME_STEP(state) == FRAME_ASKED)
		slot->of->groups[slot->group].unplaced++;
	__atomic_store_n(&row_of(slot)->state, FRAME_TO(state, FRAME_TAKEN), __ATOMIC_SEQ_CST);
}

/* Entries are let be until everything stands. */
static void open_entry(struct locals *locals, unsigned int group)
{
	struct watch_row *row = &locals->table->rows[LOCALS_FIRST_NUMBER + group];

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
		/* each variable has its first frame before any has its second */
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

/* ---- ending ---- */

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
			event_object_quiet(locals->groups[i].entry);
	locals_serve_no_more(locals);
	for (unsigned int i = 0; i < locals->slot_count; i++) {
		if (locals->table)
			let_go(&locals->slots[i]);
		if (locals->slots[i].object)
			event_object_quiet(locals->slots[i].object);
	}
}

void watch_counts_add(struct watch_counts *to, const struct watch_row *row, uint64_t hits)
{
	uint64_t told = row->taken + row->dropped;

	to->hits += hits;
	to->taken += row->taken;
	to->filtered += row->filtered;
	to->counted += row->counted;
	to->own += row->own;
	to->dropped += row->dropped;
	to->late += row->late;
	to->inexact += row->inexact;
	to->shared += row->shared;
	to->missed += hits > told ? hits - told : 0;
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
	result->processes++;
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
