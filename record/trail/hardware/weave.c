/* SPDX-License-Identifier: MIT */
#include "record/trail/hardware/weave.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SEEN_COUNT 8192u
#define INSN_MAX 15

struct weave_seen {
	uint64_t address;
	struct block_insn insn; /* no bytes: it can't be read */
	uint8_t code[INSN_MAX];
	uint8_t is_used;
};

int weave_init(struct weave *weave, struct trail_sink *sink, struct sink_thread *thread,
	       struct codes *codes)
{
	*weave = (struct weave){ .sink = sink, .thread = thread, .codes = codes };
	weave->seen = calloc(SEEN_COUNT, sizeof(*weave->seen));
	return weave->seen ? 0 : -ENOMEM;
}

void weave_release(struct weave *weave)
{
	free(weave->seen);
	*weave = (struct weave){ 0 };
}

/* ---- instructions ---- */

static const struct weave_seen *look(struct weave *weave, uint64_t address)
{
	struct weave_seen *seen = &weave->seen[address % SEEN_COUNT];
	size_t bytes;

	if (weave->generation != weave->codes->generation) {
		memset(weave->seen, 0, SEEN_COUNT * sizeof(*weave->seen));
		weave->generation = weave->codes->generation;
	}
	if (seen->is_used && seen->address == address)
		return seen->insn.bytes ? seen : NULL;
	*seen = (struct weave_seen){ .address = address };
	bytes = weave->codes->read(weave->codes, address, seen->code, INSN_MAX);
	if (!bytes || block_insn(&seen->insn, address, seen->code, bytes)) {
		seen->insn = (struct block_insn){ 0 };
		return NULL; /* not kept: it may come to be there */
	}
	seen->is_used = 1;
	return seen;
}

const struct block_insn *weave_look(struct weave *weave, uint64_t address)
{
	const struct weave_seen *seen = look(weave, address);

	return seen ? &seen->insn : NULL;
}

/* As trail_block_leads(), of an entry. */
static int leads(const struct trail_entry *entry, uint64_t to)
{
	const struct trail_block block = { .start = entry->start,
					   .target = entry->target,
					   .bytes = entry->bytes,
					   .kind = entry->kind };

	return trail_block_leads(&block, to);
}

/* Whether the thread, by the items so far, may be there. trace/trail/check.c has the same rule. */
static int may_stand(const struct weave *weave, uint64_t at)
{
	if (weave->before.instructions)
		return leads(&weave->before, at);
	return !weave->next || weave->next == at;
}

static int give_event(struct weave *weave, enum trail_event kind, uint64_t at, uint64_t first,
		      uint64_t second)
{
	struct trail_between between = { .event = kind, .at = at, .values = { first, second } };

	weave->before = (struct trail_entry){ 0 };
	weave->next = kind == TRAIL_SIGNAL && second ? second : at;
	weave->losses += kind == TRAIL_LOST;
	return weave->sink->calls->event(weave->sink, weave->thread, &between, weave->ticks);
}

int weave_flush(struct weave *weave)
{
	struct trail_entry *entry = &weave->cut.entry;
	int err = 0;

	if (!entry->instructions)
		return 0;
	if (!may_stand(weave, entry->start))
		err = give_event(weave, TRAIL_LOST, entry->start, 0, 0);
	if (!err)
		err = weave->sink->calls->block(weave->sink, weave->thread, entry, weave->cut.code,
						weave->ticks);
	weave->before = *entry;
	weave->next = 0;
	weave->blocks++;
	*entry = (struct trail_entry){ 0 };
	return err;
}

int weave_insn(struct weave *weave, uint64_t address)
{
	const struct weave_seen *seen = look(weave, address);
	const struct trail_entry *entry = &weave->cut.entry;
	int err = 0;

	if (!seen)
		return -EILSEQ;
	if (entry->instructions && address != entry->start + entry->bytes)
		err = weave_flush(weave);
	if (block_cut_add(&weave->cut, address, seen->code, &seen->insn) && !err)
		err = weave_flush(weave);
	return err;
}

/* Which events say that the thread stood there: trail_check_event(). */
static int demands(enum trail_event kind)
{
	return kind != TRAIL_ARRIVE && kind != TRAIL_LOST && kind != TRAIL_GAP &&
	       kind != TRAIL_EXEC && kind != TRAIL_SYSCALLED;
}

int weave_event(struct weave *weave, enum trail_event kind, uint64_t at, uint64_t first,
		uint64_t second)
{
	int err = weave_flush(weave);

	if (at && demands(kind) && !may_stand(weave, at) && weave->before.kind != TRAIL_STOP)
		at = 0;
	return err ? err : give_event(weave, kind, at, first, second);
}

/* ---- branches ---- */

void weave_stand(struct weave *weave, uint64_t address)
{
	weave->is_at = 1;
	weave->is_away = 0;
	weave->at = address;
}

/*
 * Whether straight code leads from one address to the other: nothing on its way leads elsewhere for
 * sure.
 */
static int is_straight(struct weave *weave, uint64_t from, uint64_t to)
{
	if (to < from || to - from > WEAVE_STRAIGHT_MAX)
		return 0;
	while (from < to) {
		const struct block_insn *insn = weave_look(weave, from);

		if (!insn)
			return 0;
		if (insn->kind != TRAIL_FALL && insn->kind != TRAIL_BRANCH &&
		    (insn->kind != TRAIL_SYSCALL || weave->codes->has_kernel))
			return 0;
		from += insn->bytes;
	}
	return from == to;
}

int weave_reach(struct weave *weave, uint64_t address)
{
	int err = 0;

	if (!weave->is_at || weave->is_away || !is_straight(weave, weave->at, address))
		return 0;
	while (weave->at < address && !err) {
		uint64_t at = weave->at;

		weave->at += weave_look(weave, at)->bytes;
		err = weave_insn(weave, at);
	}
	return err ? err : 1;
}

int weave_lost(struct weave *weave)
{
	weave->is_at = weave->is_away = 0;
	return weave_event(weave, TRAIL_LOST, 0, 0, 0);
}

/*
 * int3, int1, int: their exception comes when they have run. ud2's and hlt's is a fault: they have
 * not.
 */
static int is_trap(const struct weave_seen *seen)
{
	return seen->code[0] == 0xcc || seen->code[0] == 0xf1 || seen->code[0] == 0xcd;
}

/* Whether the instruction itself may have led there; else something came between before it ran. */
static int led(const struct weave_seen *seen, uint64_t from, uint64_t to)
{
	int is_kernel = to >= TRAIL_KERNEL, was_kernel = from >= TRAIL_KERNEL;

	switch (seen->insn.kind) {
	case TRAIL_FALL:
		return 0;
	case TRAIL_FAR:
		return 1;
	case TRAIL_SYSCALL:
		return is_kernel && !was_kernel;
	case TRAIL_STOP:
		return is_kernel && is_trap(seen);
	default:
		return is_kernel == was_kernel;
	}
}

/*
 * It came back out of the kernel. Without a record of its entry, it entered on its straight path,
 * or at an unknown place.
 */
static int came_back(struct weave *weave, uint64_t to)
{
	int is_untold = weave->is_at && !weave->is_away;
	int reached = is_untold ? weave_reach(weave, to) : 1;
	int err = reached < 0 ? reached : weave_flush(weave);

	if (!err && !reached)
		err = weave_event(weave, TRAIL_LOST, to, 0, 0);
	else if (!err && !(weave->before.kind == TRAIL_SYSCALL && may_stand(weave, to)))
		err = weave_event(weave, TRAIL_GAP, to, TRAIL_GAP_KERNEL, 0);
	weave_stand(weave, to);
	return err;
}

/* Say how it came where its last instruction did not lead. */
static int came_elsewhere(struct weave *weave, const struct weave_seen *seen, int is_led,
			  uint64_t from, uint64_t to)
{
	if (is_led && seen->insn.kind != TRAIL_STOP)
		return 0;
	if (seen && to >= TRAIL_KERNEL)
		return weave_event(weave, TRAIL_SIGNAL, is_led ? from + seen->insn.bytes : from, 0,
				   to);
	return weave_event(weave, TRAIL_GAP, to,
			   seen || from >= TRAIL_KERNEL ? TRAIL_GAP_KERNEL : TRAIL_GAP_NATIVE, 0);
}

/*
 * It took a branch. What ran from where the last one led up to `from` is given, then that
 * instruction, if it is one that may lead to `to`: else the thread was interrupted there, and it
 * has not run.
 */
static int weave_branch(struct weave *weave, uint64_t from, uint64_t to)
{
	int err = 0, is_led, has_kernel = weave->codes->has_kernel;
	const struct weave_seen *seen;

	if (from >= TRAIL_KERNEL && !has_kernel)
		return to >= TRAIL_KERNEL ? 0 : came_back(weave, to);
	if (weave->is_away)
		err = weave_lost(weave);
	if (!err && weave->is_at) {
		err = weave_reach(weave, from);
		if (!err)
			err = weave_event(weave, TRAIL_LOST, from, 0, 0);
	}
	if (err < 0)
		return err;
	seen = look(weave, from);
	is_led = seen && led(seen, from, to);
	err = is_led ? weave_insn(weave, from) : weave_flush(weave);
	weave->is_at = 1;
	if (!err && to >= TRAIL_KERNEL && !has_kernel) {
		weave->is_away = 1;
		return 0;
	}
	if (!err)
		err = came_elsewhere(weave, seen, is_led, from, to);
	weave_stand(weave, to);
	return err;
}

int weave_bts(struct weave *weave, const uint8_t *bytes, size_t count)
{
	struct {
		uint64_t from, to, flags; /* flags: bit 4, predicted */
	} taken;
	int err = 0;

	_Static_assert(sizeof(taken) == BTS_RECORD_BYTES, "a record's layout");
	for (; count >= sizeof(taken) && !err; count -= sizeof(taken), bytes += sizeof(taken)) {
		memcpy(&taken, bytes, sizeof(taken));
		/* bts_buffer_pad_out() of the kernel fills up with zeros */
		if (taken.from || taken.to)
			err = weave_branch(weave, taken.from, taken.to);
	}
	return err || !count ? err : weave_lost(weave);
}
