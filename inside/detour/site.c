/* SPDX-License-Identifier: MIT */
/*
 * A stop may fail, since a debugger is there or a thread was in a guarded function; then it is
 * tried again.
 */
#include "inside/detour/site.h"

#include "base/debug_trace.h"
#include "base/kernel.h"
#include "inside/patch/batch.h"
#include "inside/patch/sort.h"
#include "inside/runtime/heap.h"
#include "inside/runtime/lock.h"
#include "inside/runtime/tasks.h"

#include <waymark/error.h>

#include <errno.h>
#include <string.h>

#define STARVED_TIMES 3 /* as long, while no try has had all threads stopped */
#define STOP_FIRST_MS 8 /* how long a try waits for the threads, the first and the last */
#define STOP_LAST_MS 200
#define PAUSE_FIRST_NS 500000
#define PAUSE_LAST_NS 32000000

/* ---- one ---- */

/*
 * If the distance of a jump has changed, the program changed its code, and the jump leads anywhere
 * (JUMP_ASTRAY). But if the jump leads to mapped memory that is not the agent's, another tool
 * wrote a whole jump there.
 */
enum jump_state site_jump_state(const struct text *text, const struct detour *head,
				const uint8_t *found)
{
	enum jump_state state = detour_jump_state(head, found);
	uintptr_t next = head->record->address + head->jump.bytes.at + DETOUR_JUMP_BYTES;
	int32_t distance;
	uint8_t byte;

	if (state != JUMP_ASTRAY || head->jump.form != FORM_BYTE)
		return state;
	memcpy(&distance, found + head->jump.bytes.at + 1, sizeof distance);
	next += (uintptr_t)(intptr_t)distance;
	return landing_is_in(next, next + 1) || text_read(text, next, &byte, 1) ? JUMP_ASTRAY
										: JUMP_OTHER;
}

int site_look(const struct text *text, const struct detour *head, uint8_t *found)
{
	if (text_read(text, head->record->address, found, detour_owned(head->record)))
		return -EFAULT;
	return (int)site_jump_state(text, head, found);
}

int site_needs_stop(const struct detour *head)
{
	return head->jump.form != FORM_BYTE || detour_is_guard(head);
}

/* Store our bytes behind another tool's, where no thread comes. */
static int take_rest(const struct text *text, const struct detour *head)
{
	const struct pun_bytes *jump = &head->jump.bytes;
	unsigned int from = jump->at ? jump->at : 1, end = jump->at + jump->count;

	/* a debugger may restore our first byte, which then needs the others and the landing */
	if (!jump->at && tasks_is_traced())
		return -WM_E_SITE_FOREIGN;
	return from < end ? text_write_code(text, head->record->address + from,
					    head->record->original + from, end - from, head->prot)
			  : 0;
}

int site_store(const struct text *text, struct detour *head, int arm)
{
	const struct control_detour *record = head->record;
	const struct pun_bytes *jump = &head->jump.bytes;
	uint8_t found[DETOUR_INSN_MAX + DETOUR_KEPT_MAX] = { 0 };
	int state = site_look(text, head, found);

	memcpy(head->found, found, sizeof head->found);
	switch (state) {
	case JUMP_FILE_BYTES:
		return !arm ? 0
			    : text_write_code(text, record->address + jump->at, jump->bytes,
					      jump->count, head->prot);
	case JUMP_ASTRAY:
	case JUMP_STORED:
		return arm ? (state == JUMP_STORED ? 0 : -WM_E_SITE_CHANGED)
			   : text_write_code(text, record->address + jump->at,
					     record->original + jump->at, jump->count, head->prot);
	case JUMP_FOREIGN:
		return arm ? -WM_E_SITE_FOREIGN : take_rest(text, head);
	case JUMP_OTHER:
		return -WM_E_SITE_CHANGED;
	}
	return state;
}

static int count_semaphore(const struct text *text, struct detour *detour, int arm)
{
	uint64_t at = detour->record->semaphore;
	uint16_t count;

	if (!at || detour->is_counted_up == arm)
		return 0;
	if (text_read(text, at, &count, sizeof count))
		return -EFAULT;
	count = (uint16_t)(count + (arm ? 1 : -1));
	if (text_write_data(text, at, &count, sizeof count))
		return -EFAULT;
	detour->is_counted_up = (uint8_t)arm;
	return 0;
}

int site_count_semaphores(const struct text *text, struct detour *head, int arm)
{
	int error = 0;

	for (struct detour *d = head; d && !error; d = d->next_member) {
		if (!arm || d->in_batch)
			error = count_semaphore(text, d, arm);
	}
	return error;
}

/* ---- many ---- */

int site_list_make(struct list *list, int (*wanted)(const struct detour *))
{
	int error;

	*list = (struct list){ 0 };
	for (const struct detour *d = detour_first(); d; d = d->next)
		list->count += wanted(d) != 0;
	if (!list->count)
		return 0;
	list->bytes = list->count * sizeof *list->sites;
	list->sites = heap_alloc(list->bytes);
	if (!list->sites)
		return -ENOMEM;
	list->count = 0;
	for (struct detour *d = detour_first(); d; d = d->next) {
		if (wanted(d))
			list->sites[list->count++] = (struct janitor_site){
				.address = d->record->address, .detour = d
			};
	}
	error = sort_by_address(list->sites, list->count, sizeof *list->sites);
	if (error)
		site_list_free(list);
	return error;
}

void site_list_free(struct list *list)
{
	heap_free(list->sites, list->bytes);
}

static size_t undone(const struct list *list)
{
	size_t left = 0;

	for (size_t i = 0; i < list->count; i++) {
		const struct janitor_site *site = &list->sites[i];

		left += !site->is_done && (!site->error || site->error == -WM_E_DETOUR_BUSY);
	}
	return left;
}

/*
 * Some thread waited for a processor, for its vfork(2)'s child or the like: it will stop in time.
 */
static int is_starved(int error)
{
	return error == -WM_E_STRICT || error == -EAGAIN;
}

int site_is_passing(int error)
{
	return is_starved(error) || error == -WM_E_TRACED;
}

/* Store where no stop is needed, and note where the right bytes are there already. */
static void store_running(const struct text *text, struct list *list, int arm)
{
	uint8_t found[DETOUR_INSN_MAX + DETOUR_KEPT_MAX];

	batch_sync_cores();
	for (size_t i = 0; i < list->count; i++) {
		struct janitor_site *site = &list->sites[i];
		struct detour *head = site->detour;
		int state;

		if (!site_needs_stop(head)) {
			site->error = site_store(text, head, arm);
			site->is_done = !site->error;
			memcpy(site->found, head->found, sizeof site->found);
			continue;
		}
		state = site_look(text, head, found);
		site->is_done = state == (arm ? JUMP_STORED : JUMP_FILE_BYTES);
	}
	batch_sync_cores();
}

static void settle(const struct text *text, struct list *list, int arm, int error,
		   struct detour_result *result)
{
	uint8_t found[DETOUR_INSN_MAX + DETOUR_KEPT_MAX];

	for (size_t i = 0; i < list->count; i++) {
		struct janitor_site *site = &list->sites[i];
		struct detour *head = site->detour;
		int state = site->is_done ? JUMP_FILE_BYTES : site_look(text, head, found);

		/* a janitor that was killed may have stored it: then the jump is there, inert */
		if (state == JUMP_STORED || state == JUMP_ASTRAY)
			head->is_armed = 1;
		if (site->is_done) {
			result->sites += head->is_armed != arm && !detour_is_guard(head);
			head->is_armed = (uint8_t)arm;
		}
		head->error = site->is_done ? 0 : site->error ? site->error : error;
		memcpy(head->found, site->found, sizeof head->found);
	}
}

int site_change_all(const struct text *text, struct list *list, int arm, unsigned int timeout_ms,
		    struct detour_result *result)
{
	uint64_t begin_ns = lock_now_ns(), wait_ns = (uint64_t)timeout_ms * 1000000;
	unsigned int patience_ms = STOP_FIRST_MS;
	long pause_ns = PAUSE_FIRST_NS;
	int error = 0;

	store_running(text, list, arm);
	result->done_ns = lock_now_ns();
	while (undone(list)) {
		struct janitor_outcome outcome = { 0 };

		error = janitor_run(text, list->sites, list->count, arm, patience_ms, &outcome);
		result->stopped_ns += outcome.stopped_ns;
		if (outcome.done_ns)
			result->done_ns = outcome.done_ns;
		if ((error && !site_is_passing(error)) || !undone(list) ||
		    lock_now_ns() - begin_ns >= (is_starved(error) ? STARVED_TIMES : 1) * wait_ns)
			break;
		/* those that did stop are to run for as long as they stood still */
		kernel_sleep_ns((long)outcome.stopped_ns > pause_ns ? (long)outcome.stopped_ns
								    : pause_ns);
		pause_ns = pause_ns < PAUSE_LAST_NS ? pause_ns * 2 : pause_ns;
		patience_ms = patience_ms < STOP_LAST_MS ? patience_ms * 2 : patience_ms;
	}
	settle(text, list, arm, error, result);
	DEBUG_TRACE("agent/detour", "arm %d: %d places, %d undone: error %d", arm, list->count,
		    undone(list), error);
	return error;
}
