/* SPDX-License-Identifier: MIT */
/* Sends the watch requests, and assigns each watch to one of the process's event objects. */
#include "record/watch/watching_own.h"

#include "record/watch/locals.h"
#include "record/watch/outside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

static int has_spec(const struct watching *watching, const struct locals *locals, size_t spec)
{
	for (; watching; watching = watching->next)
		for (unsigned int i = 0; i < watching->count; i++)
			if (watching->all[i].spec == spec)
				return 1;
	return locals_has(locals, spec);
}

int watching_has(const struct process *process, size_t spec)
{
	return has_spec(process->watching, process->watch.locals, spec);
}

int watch_finding_has(const struct finding *finding, size_t spec)
{
	return watching_has(finding->process, spec) ||
	       has_spec(finding->fresh, finding->locals, spec);
}

static int has_number(const struct watching *watching, uint32_t number)
{
	for (; watching; watching = watching->next)
		for (unsigned int i = 0; i < watching->count; i++)
			if (watching->all[i].number == number)
				return 1;
	return 0;
}

/*
 * Numbers are taken in turn, so that one is reused as late as possible: a signal of the watch that
 * had it before may still be in flight.
 */
uint32_t watch_finding_number(const struct finding *finding)
{
	struct watch_state *state = &finding->process->watch;
	uint64_t locals = locals_numbers(state->locals) | locals_numbers(finding->locals);
	uint32_t number;

	do
		number = state->next++ % WATCH_ROWS_MAX;
	while (locals & UINT64_C(1) << number || has_number(finding->process->watching, number) ||
	       has_number(finding->fresh, number));
	if (state->table)
		memset(&state->table->rows[number], 0, sizeof(state->table->rows[number]));
	return number;
}

static uint32_t follows_of(const struct watching *watching)
{
	uint32_t taken = 0;

	for (; watching; watching = watching->next)
		taken |= watching->plan.pointers ? 1u << watching->plan.index : 0;
	return taken;
}

/* A free chain of the table: the debug registers suffice for no more than FOLLOWS_MAX. */
static unsigned int follow_index(const struct finding *finding)
{
	uint32_t taken = follows_of(finding->process->watching) | follows_of(finding->fresh);

	return (unsigned int)__builtin_ctz(~taken) % FOLLOWS_MAX;
}

/*
 * Watches with the same bond share an object, but each followed chain has its own. NULL: no memory.
 */
static struct watching *choose_watching(struct finding *finding)
{
	const struct watch_bond *bond = &finding->bond;
	struct watching *watching = finding->fresh, **end = &finding->fresh;

	/* from outside all share one: no agent reports what is unloaded */
	while (watching && !finding->process->outside &&
	       (watching->plan.pointers || finding->plan.pointers ||
		watching->bond.module != bond->module ||
		watching->bond.owner.tid != bond->owner.tid))
		watching = watching->next;
	if (watching)
		return watching;
	watching = calloc(1, sizeof(*watching));
	if (!watching)
		return NULL;
	watching->bond = *bond;
	watching->plan = finding->plan;
	watching->plan.index = follow_index(finding);
	watching->pid = finding->process->pid;
	watching->magic = finding->process->outside ? 0 : finding->process->watch.magic;
	watching->set = finding->process->watch.sets++;
	while (*end)
		end = &(*end)->next;
	*end = watching;
	return watching;
}

int watch_finding_ask(struct finding *finding, size_t spec, unsigned int piece, uint8_t set,
		      uint32_t number, uint32_t event)
{
	struct control_watch about = finding->asked.about[piece];
	const char *text = finding->asked.text;
	struct iovec parts[] = { { &about, sizeof(about) }, { (void *)text, strlen(text) + 1 } };
	int has_text = !piece && text[0];

	about.number = number;
	about.magic = finding->process->watch.magic;
	about.set = set;
	about.event = (uint16_t)(text[0] ? event : number);
	if (finding->process->outside)
		return outside_ask(finding->session, finding->process, &about, spec,
				   has_text ? text : "");
	return process_request(finding->process, CONTROL_WATCH, parts, has_text ? 2 : 1);
}

int watching_ask(struct finding *finding, size_t spec)
{
	struct watching *watching = choose_watching(finding);
	struct asked_watch *asked = &finding->asked;
	uint32_t first = 0;

	if (!watching)
		return -ENOMEM;
	watching->asked[watching->count] = malloc(sizeof(*asked));
	if (!watching->asked[watching->count])
		return -ENOMEM;
	*watching->asked[watching->count] = *asked;
	for (unsigned int i = 0; i < asked->count; i++) {
		struct watched one = { .spec = spec,
				       .address = asked->about[i].address,
				       .number = watch_finding_number(finding),
				       .is_pointer = (asked->about[i].flags & WATCH_LEADS) != 0,
				       .bytes = asked->about[i].bytes };
		int err;

		if (watching->plan.pointers)
			asked->about[i].group = (uint8_t)watching->plan.index;
		first = i ? first : one.number;
		err = watch_finding_ask(finding, spec, i, watching->set, one.number, first);
		if (err)
			return err;
		watching->all[watching->count++] = one;
	}
	return 0;
}

int watch_finding_ask_parents(struct finding *finding)
{
	int err = 0;

	for (const struct watching *w = finding->parent->watching; w; w = w->next)
		for (unsigned int i = 0; i < w->count && !err && !w->bond.owner.tid; i++) {
			/* later_attend() may have armed it for a module already */
			if (!w->asked[i] || watch_finding_has(finding, w->all[i].spec))
				continue;
			finding->asked = *w->asked[i];
			finding->bond = w->bond;
			finding->plan = w->plan;
			err = watching_ask(finding, w->all[i].spec);
		}
	return err;
}
