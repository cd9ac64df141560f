/* SPDX-License-Identifier: MIT */
/* Take a hit from a ring, as inside/watch/take.c takes one from a signal. */
#include "record/watch/outside_own.h"

#include "arch/access_decode.h"
#include "arch/perf_registers.h"
#include "target/expression/type.h"

#include <string.h>

#define SYSCALL_BYTES 2u

/*
 * The kernel accessed the memory: in a system call, whose instruction is before the thread's
 * address, or at a fault of the instruction at that address.
 */
static void find_call(struct outside *outside, struct access_decode *decode, uint64_t end)
{
	uint8_t room[SYSCALL_BYTES];
	const uint8_t *code = outside_code_at(outside->code, end - SYSCALL_BYTES, SYSCALL_BYTES, 1,
					      room);
	int is_call = code && ((code[0] == 0x0f && (code[1] == 0x05 || code[1] == 0x34)) ||
			       (code[0] == 0xcd && code[1] == 0x80));

	decode->ip = is_call ? end - SYSCALL_BYTES : end;
	decode->how |= WATCH_BY_KERNEL;
}

static void look_at_code(struct outside *outside, const struct outside_watch *watch,
			 const struct event_record *record, struct access_decode *decode)
{
	const struct access_decode_reads reads = { .code = outside_code_at,
						   .before = outside_code_before,
						   .data = outside->code };
	ucontext_t context;

	decode->ip = record->ip;
	if (watch->about.on == WATCH_ON_EXECUTE)
		return;
	if (!record->has_regs) { /* not asked for, or the kernel had none */
		decode->ip = record->is_kernel ? 0 : record->ip - 1;
		decode->how |= record->is_kernel ? WATCH_BY_KERNEL | WATCH_IP_UNKNOWN
						 : WATCH_IP_BEHIND;
		return;
	}
	perf_registers_context(record->regs, &context);
	if (record->is_kernel)
		find_call(outside, decode, record->regs[perf_register_ip]);
	else
		access_decode_find(decode, &watch->about, &context, &reads);
}

static void find_values(struct outside_watch *watch, const struct access_decode *decode,
			struct access_decode_values *values)
{
	const struct access_decode_known known = {
		.before = watch->before,
		.has_before = watch->has_before,
		.is_before_uncertain = watch->is_before_uncertain
	};

	values->how = decode->how;
	access_decode_judge(decode, &watch->about, &known, values);
	watch->before = values->now;
	watch->has_before = !(values->how & WATCH_NEW_UNKNOWN);
	watch->is_before_uncertain = !(values->how & WATCH_NEW_EXACT);
}

/* Check the conditions. If a value is unknown, its condition counts as met. */
static int is_wanted(const struct outside_watch *watch, const struct access_decode_values *values,
		     pid_t tid, struct watch_row *row)
{
	uint16_t unknown[] = { [WATCH_IF_CHANGED] = WATCH_NEW_UNKNOWN | WATCH_OLD_UNKNOWN,
			       [WATCH_IF_VALUE] = WATCH_NEW_UNKNOWN,
			       [WATCH_IF_OLD] = WATCH_OLD_UNKNOWN,
			       [WATCH_IF_TID] = 0 };
	int is_new = !(values->how & WATCH_NEW_EXACT);
	int is_old = (values->how & (WATCH_OLD_UNCERTAIN | WATCH_OLD_UNKNOWN)) != 0;
	int is_uncertain[] = { [WATCH_IF_CHANGED] = is_new || is_old,
			       [WATCH_IF_VALUE] = is_new,
			       [WATCH_IF_OLD] = is_old,
			       [WATCH_IF_TID] = 0 };
	uint64_t now = values->now, old = values->old;
	int changed = watch_field_value(&watch->about, now) !=
		      watch_field_value(&watch->about, old);
	int is_left_out = 0, any_uncertain = 0;

	if (watch->type && watch->type->node_count && watch->about.bytes < 9) {
		now = expression_type_bits(watch->type, &now);
		old = expression_type_bits(watch->type, &old);
	}
	for (unsigned int i = 0; i < watch->test_count; i++) {
		const struct watch_bound_test *test = &watch->tests[i];
		int holds = (values->how & unknown[test->subject]) ||
			    expression_test_holds(test, now, old, changed, tid);

		if (!holds && !is_uncertain[test->subject])
			return 0;
		is_left_out |= !holds;
		any_uncertain |= is_uncertain[test->subject];
	}
	row->uncertain += (uint64_t)any_uncertain;
	row->uncertain_filtered += (uint64_t)is_left_out;
	return !is_left_out;
}

static unsigned char *put(unsigned char *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
	return to + bytes;
}

/* Add the return addresses, up to the first that is in no module's code; 0 for the others. */
static unsigned char *put_callers(struct outside *outside, const struct event_record *record,
				  unsigned int wanted, unsigned char *to)
{
	unsigned int known = 0;
	uint64_t none = 0;

	while (known < record->caller_count &&
	       outside_code_is(outside->code, record->callers[known]))
		known++;
	for (unsigned int i = 0; i < wanted; i++)
		to = put(to, i < known ? &record->callers[i] : &none, sizeof(none));
	return to;
}

/* Write the event with the same fields as inside (struct control_watch). */
static void report(struct outside *outside, const struct outside_watch *watch,
		   const struct event_record *record, const struct access_decode *decode,
		   const struct access_decode_values *values)
{
	const struct control_watch *about = &watch->about;
	size_t width = about->flags & WATCH_WITH_OFFSET ? 8 : about->bytes;
	unsigned char fields[OWN_STORE_FIELDS_MAX], *to = fields;

	to = put(to, &decode->ip, sizeof(decode->ip));
	if (about->on != WATCH_ON_EXECUTE) {
		uint64_t old = watch_field_value(about, values->old);
		uint64_t now = watch_field_value(about, values->now);

		to = put(to, &old, width);
		to = put(to, &now, width);
		to = put(to, &values->how, sizeof(values->how));
	}
	if (about->flags & WATCH_WITH_OFFSET)
		to = put(to, &about->offset, sizeof(about->offset));
	to = put_callers(outside, record, about->callers, to);
	own_store_write(outside->store, record->tid, outside->last_ns,
			OUTSIDE_EVENT_FIRST + about->event, fields, (size_t)(to - fields));
}

/* Hits before this one were lost: what value they left is unknown. */
static void break_chains(struct outside *outside)
{
	for (unsigned int i = 0; i < outside->count; i++)
		outside->all[i].has_before = 0;
}

int outside_take(void *data, const struct event_record *record)
{
	struct outside *outside = data;
	struct outside_watch *watch = &outside->all[record->source];
	struct watch_row *row = &outside->table->rows[watch->about.number];
	struct access_decode_values values = { 0 };
	struct access_decode decode = { 0 };

	if (record->after_loss)
		break_chains(outside);
	/* values are chained in the order of times, so, as inside, no two times may be equal */
	outside->last_ns = record->time_ns > outside->last_ns ? record->time_ns
							      : outside->last_ns + 1;
	row->taken++;
	look_at_code(outside, watch, record, &decode);
	if (watch->about.on != WATCH_ON_EXECUTE) {
		find_values(watch, &decode, &values);
		row->inexact += !(values.how & WATCH_NEW_EXACT);
		row->unknown += (values.how & WATCH_NEW_UNKNOWN) != 0;
	}
	if (!is_wanted(watch, &values, record->tid, row))
		row->filtered++;
	else if (watch->about.flags & WATCH_COUNT_ONLY)
		row->counted++;
	else
		report(outside, watch, record, &decode, &values);
	return 0;
}
