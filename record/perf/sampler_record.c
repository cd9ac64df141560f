/* SPDX-License-Identifier: MIT */
/*
 * Records of a sampler's events, taken apart. The layouts are those of
 * include/uapi/linux/perf_event.h, enum perf_event_type.
 */
#include "arch/perf_registers.h"
#include "record/perf/perf_record.h"
#include "record/perf/sampler_own.h"

#include <errno.h>
#include <string.h>

/* The rest of a sample, which goes in words of 8 bytes. */
struct words {
	const uint8_t *at, *end;
	int is_short;
};

static const void *take_bytes(struct words *words, uint64_t bytes)
{
	const uint8_t *at = words->at;

	if (bytes > (uint64_t)(words->end - at)) {
		words->is_short = 1;
		words->at = words->end;
		return NULL;
	}
	words->at += bytes;
	return at;
}

static uint64_t word_read(struct words *words)
{
	const void *at = take_bytes(words, 8);
	uint64_t value = 0;

	if (at)
		memcpy(&value, at, sizeof(value));
	return value;
}

/* `count` elements that follow; NULL and 0 where they do not fit. */
static const void *take_array(struct words *words, size_t *count, uint64_t bytes)
{
	uint64_t claimed = word_read(words);

	if (claimed > (uint64_t)(words->end - words->at) / bytes) {
		words->is_short = 1;
		claimed = 0;
	}
	*count = claimed;
	return take_bytes(words, claimed * bytes);
}

static void take_raw(struct words *words, struct sampler_record *record)
{
	const uint8_t *at = take_bytes(words, 4);
	uint32_t bytes;

	if (!at)
		return;
	memcpy(&bytes, at, sizeof(bytes)); /* with it, a multiple of 8 */
	record->raw = take_bytes(words, bytes);
	record->raw_bytes = record->raw ? bytes : 0;
}

/* regs[]: NULL where they are not wanted. */
static void take_regs(struct words *words, uint64_t mask, uint64_t *abi, uint64_t *regs)
{
	*abi = word_read(words);
	if (*abi == PERF_SAMPLE_REGS_ABI_NONE)
		return;
	for (; mask; mask &= mask - 1)
		regs[__builtin_ctzll(mask) % SAMPLER_REGS_MAX] = word_read(words);
}

static void take_stack(struct words *words, struct sampler_record *record)
{
	uint64_t bytes = word_read(words), filled;

	if (!bytes)
		return;
	record->stack = take_bytes(words, bytes);
	filled = word_read(words);
	record->stack_bytes = record->stack && filled < bytes ? filled : bytes;
}

/* In the order of the kernel's perf_output_sample(). */
static int take_sample(struct sampler *sampler, const struct perf_event_header *header,
		       struct sampler_record *record)
{
	const uint8_t *begin = (const uint8_t *)(header + 1);
	struct words words = { begin, begin + header->size - sizeof(*header), 0 };
	unsigned int event;
	const struct sampler_form *form;
	uint64_t both;

	if (!rings_source(&sampler->rings, word_read(&words), &event) ||
	    event >= sampler->request->event_count)
		return -EBADMSG;
	form = &sampler->forms[event];
	record->kind = SAMPLER_SAMPLE;
	record->event = event;
	record->is_kernel = (header->misc & PERF_RECORD_MISC_CPUMODE_MASK) ==
			    PERF_RECORD_MISC_KERNEL;
	record->ip = word_read(&words);
	both = word_read(&words);
	record->pid = (pid_t)(uint32_t)both;
	record->tid = (pid_t)(both >> 32);
	record->time_ns = word_read(&words);
	if (form->sample_type & PERF_SAMPLE_ADDR)
		record->address = word_read(&words);
	record->cpu = (uint32_t)word_read(&words);
	record->period = form->sample_type & PERF_SAMPLE_PERIOD
				 ? word_read(&words)
				 : sampler->request->events[event].period;
	if (form->sample_type & PERF_SAMPLE_CALLCHAIN)
		record->callers = take_array(&words, &record->caller_count, 8);
	if (form->sample_type & PERF_SAMPLE_RAW)
		take_raw(&words, record);
	if (form->sample_type & PERF_SAMPLE_BRANCH_STACK)
		record->branches = take_array(&words, &record->branch_count,
					      sizeof(struct perf_branch_entry));
	if (form->sample_type & PERF_SAMPLE_REGS_USER)
		take_regs(&words, form->user_regs, &record->user_regs_abi, record->user_regs);
	if (form->sample_type & PERF_SAMPLE_STACK_USER)
		take_stack(&words, record);
	if (form->sample_type & PERF_SAMPLE_REGS_INTR)
		take_regs(&words, form->event_regs, &record->regs_abi, record->regs);
	if (form->user_regs & PERF_REGISTER_IP_BIT)
		record->user_ip = record->user_regs[perf_register_ip];
	return words.is_short ? -EBADMSG : 1;
}

static int take_other(struct sampler *sampler, const struct perf_record *from,
		      struct sampler_record *record)
{
	switch (from->type) {
	case PERF_RECORD_SWITCH:
	case PERF_RECORD_SWITCH_CPU_WIDE:
		record->kind = from->misc & PERF_RECORD_MISC_SWITCH_OUT ? SAMPLER_DEPART
									: SAMPLER_ARRIVE;
		record->is_preempted = (from->misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT) != 0;
		return 1;
	case PERF_RECORD_LOST:
	case PERF_RECORD_LOST_SAMPLES:
		record->kind = SAMPLER_LOST;
		record->pid = record->tid = 0; /* who wrote the report */
		record->count = from->lost;
		return 1;
	case PERF_RECORD_THROTTLE:
	case PERF_RECORD_UNTHROTTLE:
		if (!rings_source(&sampler->rings, from->id, &record->event))
			return -EBADMSG;
		record->kind = from->type == PERF_RECORD_THROTTLE ? SAMPLER_THROTTLED
								  : SAMPLER_UNTHROTTLED;
		return record->event < sampler->request->event_count;
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		record->kind = SAMPLER_MMAP;
		return 1;
	case PERF_RECORD_COMM:
		record->kind = SAMPLER_COMM;
		record->is_exec = (from->misc & PERF_RECORD_MISC_COMM_EXEC) != 0;
		return 1;
	case PERF_RECORD_FORK:
		record->kind = SAMPLER_FORK;
		return 1;
	case PERF_RECORD_EXIT:
		record->kind = SAMPLER_EXIT;
		return 1;
	default:
		return 0;
	}
}

int sampler_record_read(struct sampler *sampler, const struct perf_event_header *header,
			struct sampler_record *record)
{
	struct perf_record from;

	memset(record, 0, sizeof(*record));
	if (header->type == PERF_RECORD_SAMPLE)
		return take_sample(sampler, header, record);
	if (perf_record_read(&from, header, SAMPLER_COMMON))
		return -EBADMSG;
	record->time_ns = from.time;
	record->cpu = from.cpu;
	record->pid = (pid_t)from.pid;
	record->tid = (pid_t)from.tid;
	record->ppid = (pid_t)from.ppid;
	record->ptid = (pid_t)from.ptid;
	record->start = from.start;
	record->bytes = from.bytes;
	record->offset = from.offset;
	if (from.build_id_bytes <= PERF_BUILD_ID_BYTES) {
		record->build_id = from.build_id;
		record->build_id_bytes = from.build_id_bytes;
	}
	record->text = from.text;
	return take_other(sampler, &from, record);
}

int sampler_record_time(const struct perf_event_header *header, uint64_t *time_ns)
{
	const uint8_t *begin = (const uint8_t *)header;
	/* sample: identifier, ip, tid, time; others end in tid, time, CPU, identifier */
	size_t at = header->type == PERF_RECORD_SAMPLE ? sizeof(*header) + 24
						       : (size_t)header->size - 24;

	if (header->size < sizeof(*header) + 32)
		return -EBADMSG;
	memcpy(time_ns, begin + at, sizeof(*time_ns));
	return 0;
}
