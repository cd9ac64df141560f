/* SPDX-License-Identifier: MIT */
/*
 * From a message to a detour. Who sends is trusted to know what code may be moved; what is checked here
 * is that nothing lies outside of what it belongs to, that the bytes are those it expects, and that all
 * can be reached.
 */
#include "agent/detour/detour.h"

#include "agent/control/heap.h"
#include "agent/detour/exits.h"
#include "agent/detour/return.h"
#include "agent/detour/memory.h"
#include "agent/detour/pun.h"
#include "agent/detour/record.h"
#include "agent/detour/segments.h"
#include "agent/marker/hit.h"
#include "agent/marker/hook.h"
#include "agent/watch/guard.h"

#include <waymark/error.h>
#include <waymark/marker.h>

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define MARKER_BYTES 5

static int has_string(const uint8_t types[16])
{
	return memchr(types, WM_TYPE_STR, 16) != NULL;
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

static uintptr_t relay_of(const struct control_detour *record)
{
	return record->relay ? record->address + DETOUR_SHORT_BYTES + (uintptr_t)record->relay : 0;
}

static int is_held(uintptr_t start, uintptr_t end, const struct detour *head,
		   int (*matters)(const struct detour *))
{
	return table_overlap(start, end, head, matters) || table_relay(start, end, head, matters);
}

/* Whether other spans, or their relays, are in the way; what nobody wants any more is made to go. */
static int check_held(const struct text *text, uintptr_t start, uintptr_t end,
		      const struct detour *head)
{
	if (is_held(start, end, head, is_wanted))
		return -WM_E_DETOUR_TAKEN;
	if (!is_held(start, end, head, is_inert))
		return 0;
	detour_disarm_idle(text, 100, NULL);
	return is_held(start, end, head, is_inert) ? -WM_E_DETOUR_TAKEN : 0;
}

/*
 * Its filler is nobody else's as long as this one is wanted. What stood there before left nothing behind: nothing
 * ever comes to filler but by a short jump, and who stood on the long one was led on when that was taken away.
 */
static int check_relay(const struct text *text, const struct control_detour *record,
		       const struct detour *head, struct detour_refusal *refusal)
{
	uintptr_t relay = relay_of(record), end = relay + DETOUR_RELAY_BYTES;
	const struct segment *segment = segments_find(relay, end);
	uint8_t found[DETOUR_RELAY_BYTES];
	int error;

	if (!relay || (head && head->is_armed))
		return 0;
	if (!segment || !(segment->prot & PROT_EXEC) ||
	    (relay < record->address + record->span_bytes && end > record->address))
		return -WM_E_PROTOCOL;
	error = check_held(text, relay, end, head);
	/* an old one's long jump may stand there still, since a janitor was killed: it is stored anew */
	if (error || head)
		return error;
	if (text_read(text, relay, found, sizeof found))
		return -EFAULT;
	if (!memcmp(found, record->original + record->span_bytes, sizeof found))
		return 0;
	memcpy(refusal->expected, record->original + record->span_bytes, sizeof refusal->expected);
	memcpy(refusal->found, found, sizeof refusal->found);
	return -WM_E_SITE_CHANGED;
}

/* A marker's bytes change when it is armed: no jump's distance may lie in them. */
static int is_in_marker(uintptr_t start, uintptr_t end)
{
	for (const struct module *m = registry_modules(); m; m = m->next) {
		uint32_t low = 0, high = m->site_count;

		/* in order of address: the first that ends behind `start` */
		while (low < high) {
			uint32_t middle = (low + high) / 2;

			if (m->sites[middle].address + MARKER_BYTES <= start)
				low = middle + 1;
			else
				high = middle;
		}
		if (low < m->site_count && m->sites[low].address < end)
			return 1;
	}
	return 0;
}

static int check_semaphore(const struct control_detour *record)
{
	const struct segment *data = segments_find(record->semaphore, record->semaphore + 2);

	return !record->semaphore || (data && data->prot & PROT_WRITE) ? 0 : -EFAULT;
}

/* `head`: of the chain that it belongs to, NULL: none. */
static int check_place(const struct text *text, const struct control_detour *record,
		       const struct detour *head, struct detour_refusal *refusal)
{
	size_t bytes = detour_owned(record);
	uintptr_t end = record->address + bytes;
	const struct segment *segment = segments_find(record->address, end);
	uint8_t found[DETOUR_SPAN_MAX];
	int error;

	if (!segment || !(segment->prot & PROT_EXEC))
		return -EFAULT;
	if (segments_is_agents(record->address, end))
		return -WM_E_AGENT_CODE;
	/* the bytes that stand there are this chain's own */
	if (head && head->is_armed)
		return 0;
	error = check_held(text, record->address, end, head);
	if (error)
		return error;
	if (hook_stands_in(record->address, end))
		return -WM_E_AGENT_CODE;
	if (record->pun && is_in_marker(record->address, end))
		return -WM_E_SPAN_MARKER;
	if (text_read(text, record->address, found, bytes))
		return -EFAULT;
	if (!memcmp(found, record->original, bytes))
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

/* Where the long jump stands that leads to the trampoline. */
static uintptr_t jump_at(const struct detour *detour)
{
	return detour->landing ? detour->landing
	       : detour->relay ? detour->relay
			       : detour->record->address;
}

static struct range reach_of(const struct detour *detour)
{
	const struct control_detour *record = detour->record;
	const struct detour_fixup *fixups = detour->fixups;
	struct range range = { .low = 0, .high = (UINT64_C(1) << 47) - 1 };

	/* the jump into it: code - (its address + 5) */
	narrow(&range, jump_at(detour) + DETOUR_JUMP_BYTES, 0);
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

/* A guest's link leads to what follows its point in the host's trampoline, until another event is linked to it. */
static void link_back(const struct detour *detour, uint8_t *link)
{
	uintptr_t back = chain_link(detour->head, chain_point(detour)) + DETOUR_JUMP_BYTES;
	int32_t far = (int32_t)(back - (detour->code + detour->record->link_at) -
				DETOUR_JUMP_BYTES);

	link[0] = 0xe9;
	memcpy(link + 1, &far, sizeof far);
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
			put64(to, detour_is_guard(detour) ? guard_entry(record->flags)
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
	if (detour->is_guest)
		link_back(detour, code + record->link_at);
	return 0;
}

/* The jumps that lead there; a landing's is written, nobody comes there yet. */
static int make_jumps(const struct text *text, struct detour *detour)
{
	const struct control_detour *record = detour->record;
	int64_t far = (int64_t)(detour->code - jump_at(detour) - DETOUR_JUMP_BYTES);
	int32_t near = (int32_t)far;
	uint8_t jump[DETOUR_JUMP_BYTES] = { 0xe9 };

	if (near != far)
		return -WM_E_DETOUR_REACH;
	memcpy(jump + 1, &near, sizeof near);
	if (detour->landing) {
		detour->jump_bytes = record->span_bytes;
		return text_write_code(text, detour->landing, jump, sizeof jump,
				       PROT_READ | PROT_EXEC);
	}
	memcpy(detour->relay ? detour->relay_jump : detour->jump, jump, sizeof jump);
	detour->jump_bytes = DETOUR_JUMP_BYTES;
	if (detour->relay) {
		detour->jump[0] = 0xeb;
		detour->jump[1] = (uint8_t)record->relay;
		detour->jump_bytes = DETOUR_SHORT_BYTES;
	}
	return 0;
}

static int make_code(const struct text *text, struct detour *detour, struct detour *head)
{
	static uint8_t code[DETOUR_CODE_MAX];
	const struct control_detour *record = detour->record;
	struct range range;
	int error = record->pun && !head ? pun_take(record, detour->jump, &detour->landing) : 0;

	if (error)
		return error;
	detour->head = head ? head : detour;
	detour->relay = head ? 0 : relay_of(record);
	range = reach_of(detour);
	error = memory_take(range.low, range.high, record->address, record->code_bytes,
			    &detour->code);
	if (!error) {
		error = fill_code(detour, code);
		if (!error)
			error = text_write_code(text, detour->code, code, record->code_bytes,
						PROT_READ | PROT_EXEC);
		if (!error)
			error = head ? chain_join(head, detour) : make_jumps(text, detour);
		if (error)
			memory_untake(detour->code, record->code_bytes);
	}
	if (error && detour->landing)
		pun_untake(detour->landing);
	return error;
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
	event->is_careful = 1;
	event->number = COUNTERS_MAX + 1; /* a marker's count is worth more than one of thousands */
	memset(event->ids, 0xff, sizeof event->ids); /* EVENT_ID_NONE */
}

static int any_strings;

int detour_any_strings(void)
{
	return any_strings;
}

static void detour_free(struct detour *detour)
{
	if (!detour)
		return;
	if (detour->record)
		heap_free(detour->record, detour->record->bytes);
	heap_free(detour, sizeof *detour);
}

static int make(const struct text *text, const struct control_detour *record,
		const struct record_layout *layout, struct detour *head, struct detour **result)
{
	struct detour *detour = heap_alloc(sizeof *detour);
	const struct segment *segment = segments_find(record->address,
						      record->address + record->span_bytes);
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
	detour->is_guest = head && chain_find(record) != head;
	detour->code_bytes = (const uint8_t *)start + layout->code;
	detour->fixups = (const struct detour_fixup *)(start + layout->fixups);
	detour->moves = (const struct detour_move *)(start + layout->moves);
	exits_find(detour);
	set_event(detour, 0, layout);
	if (record->flags & DETOUR_RETURN)
		set_event(detour, 1, layout);
	error = make_code(text, detour, head);
	if (error) {
		detour_free(detour);
		return error;
	}
	table_add(detour);
	any_strings |= has_string(record->types[0]) || has_string(record->types[1]);
	*result = detour;
	return 0;
}

int detour_place(const struct text *text, unsigned int lane, const struct control_detour *record,
		 size_t bytes, struct detour_refusal *refusal)
{
	struct record_layout layout;
	struct detour *detour, *head;
	int error;

	*refusal = (struct detour_refusal){ .text = "" };
	error = record_check(record, bytes, &layout);
	if (error) {
		refusal->error = error;
		return error;
	}
	refusal->point = record->point;
	refusal->text = layout.text[0];
	if (record->flags & (DETOUR_RETURN | DETOUR_CALL))
		error = return_check();
	detour = table_find(record, table_hash(record));
	head = detour ? detour->head : chain_find(record);
	if (!(head && chain_is_wanted(head)) && chain_host(record)) {
		head = chain_host(record);
		detour = NULL;
	}
	if (!error)
		error = check_semaphore(record);
	if (!error && !(head && chain_is_wanted(head)))
		error = check_place(text, record, head, refusal);
	if (!error && !(head && chain_is_wanted(head)))
		error = check_relay(text, record, head, refusal);
	if (!error && !detour)
		error = make(text, record, &layout, head, &detour);
	if (!error && !detour->head->is_armed)
		error = exits_check(detour->head);
	if (!error) {
		detour->prepared |= 1u << lane;
		detour->is_gone = 0;
	}
	refusal->error = error;
	return error;
}
