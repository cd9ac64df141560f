/* SPDX-License-Identifier: MIT */
#include "record/session/process.h"
#include "record/session/session.h"
#include "record/watch/living.h"
#include "record/watch/locals_own.h"
#include "record/watch/watching_own.h"
#include "target/expression/variable.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <waymark/error.h>
#include <waymark/marker.h>

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
		.sig_data = WATCH_COOKIE(locals->magic, number, 0, 0),
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
