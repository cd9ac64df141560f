/* SPDX-License-Identifier: MIT */
/*
 * From a message to a detour. The sender is trusted to know which code may be moved. This file
 * checks that everything is inside what it belongs to, that the code has the expected bytes, and
 * that all addresses can be reached.
 */
#include "inside/detour/detour.h"

#include "base/predicate.h"
#include "base/sorted.h"
#include "inside/detour/hook.h"
#include "inside/detour/memory.h"
#include "inside/detour/return.h"
#include "inside/marker/handlers.h"
#include "inside/marker/hit.h"
#include "inside/marker/predicates.h"
#include "inside/marker/sums.h"
#include "inside/runtime/heap.h"
#include "inside/store/thread_writer.h"

#include <waymark/error.h>
#include <waymark/marker.h>

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#define MARKER_BYTES 5

static int has_string(const uint8_t types[16])
{
	return memchr(types, WM_TYPE_STR, 16) != NULL;
}

/* ---- one record of a PLACE message, by itself: no part of it is outside of its container ---- */

/* Where the parts of a record lie in it. */
struct record_layout {
	size_t code, fixups, texts, predicates, sums, end;
	const char *text[2];
	size_t text_bytes[2];
};

#define SITE_TEXT_PARTS 6

static size_t round_up8(size_t bytes)
{
	return (bytes + 7) & ~(size_t)7;
}

/*
 * A NUL-terminated text of six lines, as abi/site.h has it. Its bytes with the NUL; 0 if it is
 * none.
 */
static size_t text_length(const char *text, size_t room)
{
	const char *end = memchr(text, 0, room);
	unsigned int lines = 1;

	if (!end || end - text >= SITE_TEXT_MAX || end - text < 3 || text[1] != 'd' ||
	    text[2] != '\n')
		return 0;
	for (const char *at = text; at < end; at++)
		lines += *at == '\n';
	return lines == SITE_TEXT_PARTS ? (size_t)(end - text) + 1 : 0;
}

static int lay_out(const struct control_detour *record, size_t bytes, struct record_layout *layout)
{
	const char *start = (const char *)record;
	size_t texts = record->flags & DETOUR_RETURN ? 2 : 1;

	layout->code = sizeof *record;
	layout->fixups = layout->code + round_up8(record->code_bytes);
	layout->texts = layout->fixups + record->fixup_count * sizeof(struct detour_fixup);
	if (layout->texts > bytes)
		return -WM_E_PROTOCOL;
	layout->end = layout->texts;
	for (size_t i = 0; i < texts; i++) {
		layout->text[i] = start + layout->end;
		layout->text_bytes[i] = text_length(start + layout->end, bytes - layout->end);
		if (!layout->text_bytes[i])
			return -WM_E_PROTOCOL;
		layout->end += layout->text_bytes[i];
	}
	layout->predicates = round_up8(layout->end);
	layout->sums = layout->predicates + record->predicates * sizeof(struct predicate);
	layout->end = layout->sums + record->sums * sizeof(struct sum_field);
	return layout->end == bytes ? 0 : -WM_E_PROTOCOL;
}

/* With callers, their callchain is the last. */
static int check_types(const uint8_t types[16], int has_callers)
{
	unsigned int i = 0, count = types_count(types);

	for (; i < count; i++) {
		if (has_callers && i + 1 == count && types[i] == WM_TYPE_ADDRESSES)
			continue;
		/* a run of bytes can't be read with care */
		if (types[i] > FIELD_TYPE_MASK || !field_payload_bytes[types[i]] ||
		    types[i] == WM_TYPE_BYTES)
			return -WM_E_PROTOCOL;
	}
	for (; i < 16; i++) {
		if (types[i])
			return -WM_E_PROTOCOL;
	}
	return 0;
}

/* Of DETOUR_ONCE: the fields of its one event. */
static int check_once(const struct control_detour *record)
{
	unsigned int count = types_count(record->types[0]), all = types_count(record->types[1]);
	unsigned int texts = 0;

	if (!(record->flags & DETOUR_ONCE))
		return 0;
	all -= all && record->types[1][all - 1] == WM_TYPE_ADDRESSES;
	for (unsigned int i = 0; i < count; i++)
		texts += record->types[0][i] == WM_TYPE_STR;
	if (!(record->flags & DETOUR_RETURN) || record->flags & DETOUR_SECRETIVE || all <= count ||
	    memcmp(record->types[0], record->types[1], count) != 0 ||
	    record->types[1][all - 1] != WM_TYPE_U64 || texts > DETOUR_KEPT_TEXTS)
		return -WM_E_PROTOCOL;
	return 0;
}

/* Strings have a pointer's bytes here. */
static int check_returns(const struct control_detour *record)
{
	for (unsigned int i = 0; i < 16 && record->types[1][i]; i++) {
		if (record->return_at[i] + field_payload_bytes[record->types[1][i]] >
		    DETOUR_RETURN_BYTES)
			return -WM_E_PROTOCOL;
	}
	return 0;
}

static int check_head(const struct control_detour *record)
{
	uint64_t end = record->address + detour_owned(record);
	uint32_t guard = record->flags & DETOUR_GUARDS;

	if (record->bytes % 8 || record->code_bytes < DETOUR_JUMP_BYTES ||
	    record->code_bytes > DETOUR_CODE_MAX || record->fixup_count > DETOUR_FIXUPS_MAX ||
	    !record->insn_bytes || record->insn_bytes > DETOUR_INSN_MAX ||
	    record->kept_bytes > DETOUR_KEPT_MAX || record->predicates > PREDICATES_MAX ||
	    record->flags &
		    ~(DETOUR_RETURN | DETOUR_SECRETIVE | DETOUR_RETURN_FLOAT | DETOUR_CALL |
		      DETOUR_GUARDS | DETOUR_ELSE | DETOUR_SAFE | DETOUR_RETURN_PARTS |
		      DETOUR_ONCE | DETOUR_SUMS | DETOUR_ENTRY | DETOUR_REPLACE | DETOUR_VOID))
		return -WM_E_PROTOCOL;
	if (record->flags & DETOUR_REPLACE &&
	    (!(record->flags & DETOUR_ONCE) || !(record->flags & DETOUR_ENTRY) ||
	     record->flags & DETOUR_SUMS || !record->handler))
		return -WM_E_PROTOCOL;
	/* without DETOUR_ONCE the return would be an event that is not added up */
	if (record->flags & DETOUR_SUMS
		    ? (record->flags & (DETOUR_RETURN | DETOUR_ONCE)) == DETOUR_RETURN
		    : record->sums)
		return -WM_E_PROTOCOL;
	if (guard & (guard - 1) || (guard && record->flags & (DETOUR_RETURN | DETOUR_SECRETIVE)))
		return -WM_E_PROTOCOL;
	if (end < record->address || record->point > record->address)
		return -WM_E_PROTOCOL;
	if (record->flags & DETOUR_SECRETIVE && !(record->flags & DETOUR_RETURN))
		return -WM_E_PROTOCOL;
	if (record->callers > FIELD_CALLERS_MAX || check_types(record->types[0], record->callers) ||
	    check_types(record->types[1], record->callers) || check_once(record))
		return -WM_E_PROTOCOL;
	return check_returns(record);
}

static int check_parts(const struct control_detour *record, const struct detour_fixup *fixups)
{
	static const uint8_t link[] = DETOUR_LINK;
	const uint8_t *code = (const uint8_t *)(record + 1);

	if (!record->link_at != !!(record->flags & DETOUR_GUARDS) ||
	    record->moved_at > record->code_bytes)
		return -WM_E_PROTOCOL;
	if (record->link_at && (record->link_at + sizeof link > record->code_bytes ||
				memcmp(code + record->link_at, link, sizeof link) != 0))
		return -WM_E_PROTOCOL;
	for (unsigned int i = 0; i < record->fixup_count; i++) {
		const struct detour_fixup *fixup = &fixups[i];
		int is_return = fixup->kind == FIXUP_RETURN_WORD ||
				fixup->kind == FIXUP_RETURN_ENTER;

		if (fixup->kind < FIXUP_REL32 || fixup->kind > FIXUP_RETURN_ENTER ||
		    fixup->offset + (fixup->kind == FIXUP_REL32 ? 4u : 8u) > record->code_bytes ||
		    (is_return && !(record->flags & DETOUR_RETURN)))
			return -WM_E_PROTOCOL;
	}
	return 0;
}

static int check_predicates(const struct control_detour *record, const struct record_layout *layout)
{
	const struct predicate *predicates = (const void *)((const char *)record +
							    layout->predicates);

	for (unsigned int i = 0; i < record->predicates; i++)
		if (!predicate_is_sound(&predicates[i]))
			return -WM_E_PROTOCOL;
	return sums_are_sound((const void *)((const char *)record + layout->sums), record->sums)
		       ? 0
		       : -WM_E_PROTOCOL;
}

/* The record may take `bytes`, and says itself how many it takes. 0 or -WM_E_PROTOCOL. */
static int record_check(const struct control_detour *record, size_t bytes,
			struct record_layout *layout)
{
	int error = record->bytes <= bytes && record->bytes >= sizeof *record ? check_head(record)
									      : -WM_E_PROTOCOL;

	if (!error)
		error = lay_out(record, record->bytes, layout);
	if (!error)
		error = check_parts(record, (const struct detour_fixup *)((const char *)record +
									  layout->fixups));
	return error ? error : check_predicates(record, layout);
}

/* ---- modules' segments ---- */

/*
 * The agent's own code, where it is linked into the program (inside/meson.build). In its shared
 * library, all code is the agent's.
 */
extern __attribute__((weak, visibility("hidden"))) const char __start_waymark_agent_text[],
	__stop_waymark_agent_text[];

extern __attribute__((visibility("hidden"))) const char __start_waymark_return_text[],
	__stop_waymark_return_text[];

/* The module's segment that holds all of [start, end), if the registry knows it; NULL. */
static const struct segment *segment_find(uintptr_t start, uintptr_t end)
{
	for (const struct module *m = registry_modules(); m; m = m->next) {
		for (unsigned int i = 0; i < m->segment_count; i++) {
			if (start >= m->segments[i].start && end <= m->segments[i].end)
				return &m->segments[i];
		}
	}
	return NULL;
}

/*
 * The range of the agent's own code: 1 and [*start, *end); 0 in a test, which links the agent's
 * parts separately.
 */
static int find_agent(uintptr_t *start, uintptr_t *end)
{
	uintptr_t mine = (uintptr_t)find_agent;
	const struct segment *segment = segment_find(mine, mine + 1);
	const struct module *program = registry_modules();

	if (__start_waymark_agent_text) {
		*start = (uintptr_t)__start_waymark_agent_text;
		*end = (uintptr_t)__stop_waymark_agent_text;
		return 1;
	}
	while (program && program->next)
		program = program->next; /* the last: it was found first */
	if (!segment || !program ||
	    (segment >= program->segments && segment < program->segments + program->segment_count))
		return 0;
	*start = segment->start;
	*end = segment->end;
	return 1;
}

/* What a hit runs can't be hit itself. */
static int is_agents(uintptr_t start, uintptr_t end)
{
	uintptr_t first, last;

	if (end > (uintptr_t)__start_waymark_return_text &&
	    start < (uintptr_t)__stop_waymark_return_text)
		return 1;
	return find_agent(&first, &last) && end > first && start < last;
}

/* ---- against the program ---- */

static int is_wanted(const struct detour *detour)
{
	return chain_is_wanted(detour);
}

static int is_inert(const struct detour *detour)
{
	return detour->is_armed && !chain_is_wanted(detour);
}

/* Whether other detours are in the way. Removes detours that no session wants any more. */
static int check_foreign(const struct text *text, uintptr_t start, uintptr_t end,
			 const struct detour *head)
{
	if (table_overlap(start, end, head, is_wanted))
		return -WM_E_DETOUR_TAKEN;
	if (!table_overlap(start, end, head, is_inert))
		return 0;
	detour_disarm_idle(text, 100, NULL);
	return table_overlap(start, end, head, is_inert) ? -WM_E_DETOUR_TAKEN : 0;
}

/* A marker's bytes change when it is armed: no jump's distance may lie in them. */
static int is_in_marker(uintptr_t start, uintptr_t end)
{
	for (const struct module *m = registry_modules(); m; m = m->next) {
		/* the first that ends behind `start` */
		size_t at = sorted_at_most(m->sites, m->site_count, sizeof *m->sites,
					   offsetof(struct site, address), start - MARKER_BYTES);

		if (at < m->site_count && m->sites[at].address < end)
			return 1;
	}
	return 0;
}

static int check_semaphore(const struct control_detour *record)
{
	const struct segment *data = segment_find(record->semaphore, record->semaphore + 2);

	return !record->semaphore || (data && data->prot & PROT_WRITE) ? 0 : -EFAULT;
}

/* Another tool's breakpoint in place of the file's byte is no change: it will go. */
static int is_as_built(const struct control_detour *record, const uint8_t *found)
{
	for (unsigned int i = 0; i < detour_owned(record); i++) {
		int may_break = !i || (i >= record->insn_bytes &&
				       record->starts >> (i - record->insn_bytes) & 1);

		if (found[i] != record->original[i] &&
		    !(may_break && found[i] == DETOUR_BREAKPOINT))
			return 0;
	}
	return 1;
}

/* `head`: of the chain that it belongs to, NULL: none. */
static int check_place(const struct text *text, const struct control_detour *record,
		       const struct detour *head, struct detour_refusal *refusal)
{
	size_t bytes = detour_owned(record);
	uintptr_t end = record->address + bytes;
	const struct segment *segment = segment_find(record->address, end);
	uint8_t found[DETOUR_INSN_MAX + DETOUR_KEPT_MAX];
	int error;

	if (!segment || !(segment->prot & PROT_EXEC))
		return -EFAULT;
	if (is_agents(record->address, end))
		return -WM_E_AGENT_CODE;
	/* the bytes there are this chain's own */
	if (head && head->is_armed)
		return 0;
	error = check_foreign(text, record->address, end, head);
	if (error)
		return error;
	if (hook_stands_in(record->address, end))
		return -WM_E_AGENT_CODE;
	if (is_in_marker(record->address, end))
		return -WM_E_SPAN_MARKER;
	if (text_read(text, record->address, found, bytes))
		return -EFAULT;
	/* a debugger may have restored an old jump of Waymark's */
	if (is_as_built(record, found) || (head && detour_jump_state(head, found) == JUMP_STORED))
		return 0;
	memcpy(refusal->expected, record->original, sizeof refusal->expected);
	memcpy(refusal->found, found, sizeof refusal->found);
	return -WM_E_SITE_CHANGED;
}

/* ---- the trampoline ---- */

struct range {
	uintptr_t low, high;
};

/* `at` + offset must lie within an int32 of `target`. */
static void narrow(struct range *range, uint64_t target, uint64_t offset)
{
	uint64_t low = target > offset + INT32_MAX ? target - offset - INT32_MAX : 0;
	uint64_t high = target - offset + (uint64_t)INT32_MAX;

	if (low > range->low)
		range->low = low;
	if (target < offset)
		high = 0;
	if (high < range->high)
		range->high = high;
}

/*
 * Where the code may lie: within reach of all jumps that lead there, and of what it refers to
 * itself.
 */
static struct range reach_of(const struct detour *detour, const struct pun_window *window)
{
	const struct control_detour *record = detour->record;
	const struct detour_fixup *fixups = detour->fixups;
	struct range range = { .low = 0, .high = (UINT64_C(1) << 47) - 1 };

	/* a jump into it: code - (its address + 5) */
	for (unsigned int i = 0; i < detour->jump.count; i++)
		narrow(&range, detour->jump.landings[i] + DETOUR_JUMP_BYTES, 0);
	if (!detour->jump.count)
		narrow(&range,
		       record->address + (window ? window->opcode_at : 0) + DETOUR_JUMP_BYTES, 0);
	for (unsigned int i = 0; i < record->fixup_count; i++) {
		if (fixups[i].kind == FIXUP_REL32)
			narrow(&range, fixups[i].target, fixups[i].offset + 4u + fixups[i].after);
	}
	return range;
}

static void put64(uint8_t *to, uint64_t value)
{
	memcpy(to, &value, sizeof value);
}

static int fill_code(const struct detour *detour, uint8_t *code)
{
	const struct control_detour *record = detour->record;

	memcpy(code, detour->code_bytes, record->code_bytes);
	for (unsigned int i = 0; i < record->fixup_count; i++) {
		const struct detour_fixup *fixup = &detour->fixups[i];
		uint8_t *to = code + fixup->offset;
		int64_t far = (int64_t)(fixup->target -
					(detour->code + fixup->offset + 4u + fixup->after));
		int32_t near = (int32_t)far;

		switch (fixup->kind) {
		case FIXUP_REL32:
			if (near != far)
				return -WM_E_DETOUR_REACH;
			memcpy(to, &near, sizeof near);
			break;
		case FIXUP_ABS64:
			put64(to, fixup->target);
			break;
		case FIXUP_WORD:
			put64(to, (uintptr_t)&detour->events[0].hit);
			break;
		case FIXUP_ENTER:
			put64(to, detour_is_guard(detour) ? detour_guards->entry(record->flags)
							  : hit_entry_detour());
			break;
		case FIXUP_RETURN_WORD:
			put64(to, (uintptr_t)detour);
			break;
		case FIXUP_RETURN_ENTER:
			put64(to, return_entry());
			break;
		}
	}
	return 0;
}

static int make_code(const struct text *text, struct detour *detour,
		     const struct pun_window *window)
{
	static struct {
		struct detour_head head;
		uint8_t code[DETOUR_CODE_MAX];
	} made;
	const struct control_detour *record = detour->record;
	struct range range = reach_of(detour, window);
	int error = memory_take(range.low, range.high, record->address, record->code_bytes,
				&detour->code);

	if (error)
		return error;
	made.head = (struct detour_head){
		.address = record->address,
		.landing = detour->jump.count ? detour->jump.landings[0] : 0,
		.magic = DETOUR_HEAD_MAGIC,
		.code_bytes = record->code_bytes,
		.moved_at = record->moved_at,
		.insn_bytes = record->insn_bytes,
	};
	error = fill_code(detour, made.code);
	if (!error)
		error = text_write_code(text, detour->code - sizeof made.head, &made,
					sizeof made.head + record->code_bytes,
					PROT_READ | PROT_EXEC);
	if (!error && window)
		error = landing_aim(text, record, window, &detour->jump, detour->code);
	else if (!error)
		error = chain_join(detour->head, detour);
	if (error)
		memory_untake(detour->code, record->code_bytes);
	return error;
}

/*
 * Which of two refusals to report: any other says more than "taken". -ENOENT: nothing was refused.
 */
static int prefer(int reported, int error)
{
	int says_more = reported != -ENOENT && reported != -WM_E_PUN_TAKEN;

	return error == -ENOENT || says_more ? reported : error;
}

/* The jump in a form, and the code that it leads to. -ENOENT: the instruction has no such form. */
static int make_jump(const struct text *text, struct detour *detour, enum detour_form form)
{
	struct pun_window window;
	unsigned int number = 0;
	int reported = -ENOENT;

	while (pun_next(detour->record, form, &number, &window)) {
		int error = landing_take(detour->record, &window, &detour->jump);

		if (!error) {
			error = make_code(text, detour, &window);
			if (!error)
				return 0;
			landing_untake(&detour->jump);
		}
		reported = prefer(reported, error);
	}
	return reported;
}

/* ---- the detour ---- */

static void set_event(struct detour *detour, int which, const struct record_layout *layout)
{
	const struct control_detour *record = detour->record;
	struct variant *event = &detour->events[which];
	struct site *site = &detour->sites[which];

	*site = (struct site){
		.address = record->point,
		.text = (const char *)record + (layout->text[which] - layout->text[0]) +
			layout->texts,
		.text_bytes = (uint32_t)layout->text_bytes[which],
		.variant = event,
	};
	site->kind = site->text[0];
	memcpy(site->types, record->types[which], sizeof site->types);
	memcpy(event->types, record->types[which], sizeof event->types);
	event->kind = site->kind;
	event->sites = site;
	event->site_count = 1;
	event->fields = strrchr(site->text, '\n') + 1; /* text_length() has counted its lines */
	event->is_careful = 1;
	event->record = record;
	event->is_return = which != 0;
	if (memchr(record->types[which], WM_TYPE_ADDRESSES, sizeof record->types[which]))
		memset(event->callers, record->callers, sizeof event->callers);
	event->is_call = (record->flags & DETOUR_RETURN) != 0;
	event->number = COUNTERS_MAX + 1; /* a marker's count is worth more than one of thousands */
	memset(event->ids, 0xff, sizeof event->ids); /* EVENT_ID_NONE */
	event->keeps = !which && record->flags & DETOUR_ONCE;
	event->is_once = which && record->flags & DETOUR_ONCE;
	event->replaces = which && record->flags & DETOUR_REPLACE;
	if (which && !event->is_once)
		return;
	event->handler = event->keeps ? 0 : record->handler;
	event->is_summed = (record->flags & DETOUR_SUMS) != 0 && !event->keeps;
	event->sum_count = record->sums;
	event->sums = (const void *)((const char *)record + layout->sums);
	event->predicates = (const void *)((const char *)record + layout->predicates);
	event->predicate_count = record->predicates;
	event->predicate_first = (uint8_t)(which ? types_count(record->types[0]) : 0);
}

static int any_careful;

int detour_any_careful(void)
{
	return any_careful;
}

static void detour_free(struct detour *detour)
{
	if (!detour)
		return;
	if (detour->record)
		heap_free(detour->record, detour->record->bytes);
	heap_free(detour, sizeof *detour);
}

/* Whether its events have what its predicates ask for. */
static int check_bound(const struct detour *detour)
{
	static struct plan_test tests[PLAN_TESTS_MAX];
	static struct plan_sums sums;
	int count = predicates_bind(&detour->events[0], 0, tests);

	if (count >= 0)
		count = predicates_bind(&detour->events[1], 0, tests);
	for (unsigned int i = 0; count >= 0 && i < 2; i++)
		if (detour->events[i].is_summed)
			count = sums_bind(&detour->events[i], 0, detour->events[i].sums,
					  detour->events[i].sum_count, &sums);
	if (count >= 0 && detour->record->flags & DETOUR_ONCE && !return_kept)
		return_kept = heap_alloc(RETURN_UNITS * sizeof *return_kept);
	if (count >= 0 && detour->record->flags & DETOUR_ONCE && !return_kept)
		return -ENOMEM;
	return count < 0 ? count : 0;
}

/* With `head`, one more of its chain; else with a jump of its own in a form. */
static int make(const struct text *text, const struct control_detour *record,
		const struct record_layout *layout, struct detour *head, enum detour_form form,
		struct detour **result)
{
	struct detour *detour = heap_alloc(sizeof *detour);
	const struct segment *segment = segment_find(record->address,
						     record->address + record->insn_bytes);
	const char *start;
	int error;

	*result = NULL;
	if (!detour)
		return -ENOMEM;
	detour->record = heap_copy(record, record->bytes);
	if (!detour->record) {
		detour_free(detour);
		return -ENOMEM;
	}
	start = (const char *)detour->record;
	detour->hash = table_hash(record);
	detour->prot = head ? head->prot : (uint8_t)segment->prot;
	detour->head = head ? head : detour;
	detour->code_bytes = (const uint8_t *)start + layout->code;
	detour->fixups = (const struct detour_fixup *)(start + layout->fixups);
	set_event(detour, 0, layout);
	if (record->flags & DETOUR_RETURN)
		set_event(detour, 1, layout);
	error = check_bound(detour);
	if (error) {
		detour_free(detour);
		return error;
	}
	error = head ? make_code(text, detour, NULL) : make_jump(text, detour, form);
	if (error) {
		detour_free(detour);
		return error;
	}
	table_add(detour);
	any_careful |= record->callers || has_string(record->types[0]) ||
		       has_string(record->types[1]);
	*result = detour;
	return 0;
}

/* ---- the choices ---- */

/* One choice for an event. */
struct choice {
	const struct control_detour *record;
	struct record_layout layout;
	struct detour *detour, *head; /* that are there already; NULL */
	int error;		      /* why it can't be had, wherever it leads */
};

static void prepare(struct detour *detour, unsigned int lane)
{
	detour->prepared |= 1u << lane;
}

/* Where the choice's chain is there: its jump is known. -ENOENT: it is not there. */
static int take_chain(const struct text *text, unsigned int lane, struct choice *choice,
		      struct detour_refusal *refusal)
{
	int error = 0;

	/* its landings may have been refused to it, or are still to be mapped */
	if (!choice->head || choice->error)
		return choice->error ? choice->error : -ENOENT;
	error = landing_error(&choice->head->jump);
	if (error && error != -EAGAIN)
		return error;
	if (choice->head->jump.form == FORM_FIRST && choice->record->flags & DETOUR_SAFE)
		return -WM_E_SPAN_UNSAFE;
	error = 0;
	if (!chain_is_wanted(choice->head))
		error = check_place(text, choice->record, choice->head, refusal);
	if (!error && !choice->detour)
		error = make(text, choice->record, &choice->layout, choice->head, 0,
			     &choice->detour);
	if (!error)
		prepare(choice->detour, lane);
	return error;
}

static int take_form(const struct text *text, unsigned int lane, struct choice *choice,
		     enum detour_form form, struct detour_refusal *refusal)
{
	int error;

	if (choice->head || choice->error)
		return choice->error ? choice->error : -ENOENT;
	if (form == FORM_FIRST && choice->record->flags & DETOUR_SAFE)
		return -WM_E_SPAN_UNSAFE;
	error = check_place(text, choice->record, NULL, refusal);
	if (!error)
		error = make(text, choice->record, &choice->layout, NULL, form, &choice->detour);
	if (!error)
		prepare(choice->detour, lane);
	return error;
}

static int choice_take(const struct text *text, unsigned int lane, struct choice *choices,
		       unsigned int count, struct detour_refusal *refusal)
{
	int reported = -WM_E_PUN_TAKEN, error = -ENOENT;

	for (unsigned int i = 0; i < count && error; i++) {
		error = take_chain(text, lane, &choices[i], refusal);
		reported = prefer(reported, error);
	}
	for (int form = FORM_BYTE; form <= FORM_FIRST && error; form++) {
		for (unsigned int i = 0; i < count && error; i++) {
			error = take_form(text, lane, &choices[i], (enum detour_form)form, refusal);
			reported = prefer(reported, error);
		}
	}
	return error ? reported : 0;
}

int detour_place(const struct text *text, unsigned int lane, const struct control_detour *records,
		 unsigned int count, struct detour_refusal *refusal)
{
	struct choice choices[DETOUR_CHOICES_MAX] = { 0 };
	const struct control_detour *record = records;
	int error = count > DETOUR_CHOICES_MAX ? -WM_E_PROTOCOL : 0;

	*refusal = (struct detour_refusal){ .text = "" };
	for (unsigned int i = 0; i < count && !error; i++) {
		struct choice *choice = &choices[i];

		choice->record = record;
		error = record_check(record, record->bytes, &choice->layout);
		if (!error && record->flags & DETOUR_GUARDS && !detour_guards)
			error = -WM_E_PROTOCOL;
		if (error)
			break;
		if (record->flags & (DETOUR_RETURN | DETOUR_CALL))
			choice->error = return_check();
		choice->detour = table_find(record, table_hash(record));
		choice->head = choice->detour ? choice->detour->head : chain_find(record);
		record = (const void *)((const char *)record + record->bytes);
	}
	if (!error) {
		refusal->point = records->point;
		refusal->text = choices[0].layout.text[0];
	}
	for (unsigned int i = 0; i < count && !error; i++) {
		const struct control_detour *choice = choices[i].record;

		if (!handlers_has(lane, choice->handler,
				  choice->types[(choice->flags & DETOUR_ONCE) != 0]))
			error = -WM_E_FIELD_TYPES;
	}
	if (!error)
		error = check_semaphore(records);
	if (!error)
		error = choice_take(text, lane, choices, count, refusal);
	refusal->error = error;
	return error;
}
