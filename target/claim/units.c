/* SPDX-License-Identifier: MIT */
#include "target/claim/units.h"

#include "target/claim/holder.h"
#include "target/process/target.h"

#include <inttypes.h>
#include <sys/random.h>
#include <time.h>

#define HOLDERS_BYTES 512
#define PAUSE_NS 4000000u /* at most, after the first try */

void units_back_off(unsigned int tries)
{
	uint32_t number = 0;

	(void)!getrandom(&number, sizeof(number), 0);
	nanosleep(&(struct timespec){ .tv_nsec = number % (PAUSE_NS << tries) }, NULL);
}

static uint64_t add(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* The rows of holders are kept, to be named. A counter weighs if it is one of the processor's. */
static void weigh(struct claim_list *list, const struct claim *wanted, const struct units *units,
		  uint64_t *held, uint64_t *all)
{
	long tgid = units->tid ? target_status_number(units->tid, "Tgid") : 0;
	size_t kept = 0;

	*held = *all = 0;
	for (size_t i = 0; i < list->count; i++) {
		const struct claim_row *row = &list->rows[i];

		if (!claim_row_weighs(row, wanted->resource, tgid > 0 ? (pid_t)tgid : units->tid,
				      units->tid, units->cpu) ||
		    (wanted->resource == CLAIM_COUNTER && row->claim.address != wanted->address))
			continue;
		*all = add(*all, row->claim.count);
		if (row->state != CLAIM_HELD)
			continue;
		*held = add(*held, row->claim.count);
		list->rows[kept++] = *row;
	}
	list->count = kept;
}

static int refuse(const struct units *units, uint64_t asked, uint64_t taken,
		  const struct claim_list *list, struct detail detail)
{
	struct claim_holders holders = { .ours = *list };
	char text[HOLDERS_BYTES];

	claim_holders_words(&holders, text, sizeof(text));
	return detail_set(detail, units->error,
			  "%" PRIu64 " asked, %" PRIu64 " of %" PRIu64 " %s are taken%s%s", asked,
			  taken, units->most, units->words, text[0] ? "; " : "", text);
}

int units_claim(struct ledger *ledger, const struct claim *claims, size_t count, uint64_t *ids,
		const struct units *units, struct detail detail)
{
	uint64_t asked = 0;

	for (size_t i = 0; i < count; i++)
		asked = add(asked, claims[i].count);
	for (unsigned int tries = 0; tries < UNITS_TRIES; tries++) {
		struct claim_list list = { 0 };
		uint64_t held, all;
		int err = limits_claim(ledger, claims, count, ids, 0, detail), is_out;

		if (err)
			return err;
		claim_list_read_all(&list);
		weigh(&list, claims, units, &held, &all);
		if (!ledger_has(ledger, ids[0])) /* ours are not among them */
			all = add(held, asked);
		is_out = asked > units->most || held > units->most - asked;
		if (all > units->most || is_out) {
			ledger_remove(ledger, ids, count);
			err = refuse(units, asked, is_out ? held : all - asked, &list, detail);
		}
		claim_list_release(&list);
		if (!err || is_out)
			return err;
		units_back_off(tries); /* others only want theirs up to now */
	}
	return units->error;
}
