/* SPDX-License-Identifier: MIT */
#include "record/trail/hardware/pt.h"

#include <errno.h>
#include <inttypes.h>
#include <intel-pt.h>
#include <stdio.h>

/* Only a damaged stream has straight code and direct jumps for so long with no packet. */
#define IDLE_INSNS_MAX (1u << 20)

#define PSB_BYTES 16u

#define BLUR_TICKS 10000u /* of two clocks that are read one after the other */
#define BLUR_PART 1000u

enum away {
	AWAY_NOT,
	AWAY_KERNEL, /* it left for where nothing is recorded */
	AWAY_LOST,   /* unknown: a TRAIL_LOST says so */
};

struct decoding {
	struct weave *weave;
	const struct pt_stream *stream;
	struct pt_outcome *outcome;
	struct pt_block_decoder *blocks;
	struct pt_packet_decoder *packets; /* runs ahead, for the time */
	uint64_t tsc_offset;		   /* of the next TSC packet; UINT64_MAX: no more */
	uint64_t tsc_ticks;
	uint64_t passed_ticks; /* of the last TSC packet that is behind */
	enum away away;
	uint64_t left_at; /* where it was interrupted; 0: it left by itself */
	int is_aborted;	  /* a transaction */
	int is_foreign;	  /* it runs code that is not of 64 bits */
	int is_guest;	  /* a virtual machine's, which has the same addresses for other code */
	size_t next_switch;
	uint64_t sync_floor; /* the last place where decoding began is below */
	uint64_t tries;	     /* that are left to find another */
	uint64_t offset;
	uint64_t idle_insns; /* since the offset moved */
};

uint64_t pt_clock_ticks(const struct pt_clock *clock, uint64_t tsc)
{
	unsigned __int128 span = tsc > clock->tsc ? tsc - clock->tsc : clock->tsc - tsc;
	uint64_t ticks;

	span = span * clock->mult >> (clock->shift & 127);
	ticks = span > UINT64_MAX ? UINT64_MAX : (uint64_t)span;
	if (tsc < clock->tsc)
		return ticks < clock->ticks ? clock->ticks - ticks : 0;
	return ticks < UINT64_MAX - clock->ticks ? clock->ticks + ticks : UINT64_MAX;
}

/* ---- time ---- */

static uint64_t ticks_of(const struct decoding *decoding, uint64_t tsc)
{
	const struct pt_clock *clock = &decoding->stream->clock;
	uint64_t ticks = clock->mult ? pt_clock_ticks(clock, tsc) : decoding->stream->end_ticks;

	return ticks < decoding->stream->end_ticks ? ticks : decoding->stream->end_ticks;
}

static void time_at_least(struct decoding *decoding, uint64_t ticks)
{
	if (decoding->weave->ticks < ticks)
		decoding->weave->ticks = ticks;
}

/* Find the first TSC packet behind that offset. */
static void find_tsc(struct decoding *decoding, uint64_t offset)
{
	struct pt_packet packet;
	uint64_t at;
	int status;

	while (decoding->tsc_offset <= offset) {
		status = pt_pkt_get_offset(decoding->packets, &at);
		if (!status)
			status = pt_pkt_next(decoding->packets, &packet, sizeof(packet));
		if (status < 0 && status != -pte_eos)
			status = pt_pkt_sync_forward(decoding->packets);
		else if (status >= 0 && packet.type == ppt_tsc) {
			decoding->passed_ticks = decoding->tsc_ticks;
			decoding->tsc_offset = at;
			decoding->tsc_ticks = ticks_of(decoding, packet.payload.tsc.tsc);
		}
		if (status < 0) {
			decoding->passed_ticks = decoding->tsc_ticks;
			decoding->tsc_offset = UINT64_MAX;
			decoding->tsc_ticks = decoding->stream->end_ticks;
		}
	}
}

/*
 * The clock that says when code was mapped is CLOCK_MONOTONIC. adjtimex(2) may change its rate by
 * 500 parts in a million. A mapping within that time of a packet may have come before it or
 * after.
 */
static uint64_t blur(const struct decoding *decoding, uint64_t ticks)
{
	const struct pt_clock *clock = &decoding->stream->clock;
	uint64_t span = ticks > clock->ticks ? ticks - clock->ticks : clock->ticks - ticks;

	return BLUR_TICKS + span / BLUR_PART;
}

static void code_time(struct decoding *decoding)
{
	struct codes *codes = decoding->weave->codes;
	uint64_t from = decoding->passed_ticks, to = decoding->tsc_ticks;

	if (!codes->time)
		return;
	from = decoding->stream->clock.mult
		       ? from - (blur(decoding, from) < from ? blur(decoding, from) : from)
		       : 0;
	codes->time(codes, from, to + blur(decoding, to));
}

/* All that was decoded so far is no later than the weave's ticks from now on. */
static void bound_time(struct decoding *decoding)
{
	uint64_t offset;

	if (pt_blk_get_offset(decoding->blocks, &offset))
		return;
	if (offset != decoding->offset)
		decoding->idle_insns = 0;
	decoding->offset = offset;
	if (decoding->tsc_offset <= offset) {
		find_tsc(decoding, offset);
		code_time(decoding);
	}
	time_at_least(decoding, decoding->tsc_ticks);
}

/* ---- errors ---- */

static void note_error(struct decoding *decoding, const char *what)
{
	struct pt_outcome *outcome = decoding->outcome;

	if (!outcome->errors++)
		snprintf(outcome->first, sizeof(outcome->first), "%s, at byte %#" PRIx64, what,
			 decoding->offset);
}

static int on_error(struct decoding *decoding, const char *what)
{
	note_error(decoding, what);
	decoding->away = AWAY_LOST;
	return weave_lost(decoding->weave);
}

/*
 * Continue at the next place where decoding can begin; -pte_eos: no such place. Skipped packets are
 * already counted as lost.
 */
static int synchronize(struct decoding *decoding)
{
	uint64_t sync = 0;
	int status;

	decoding->idle_insns = 0;
	/* each time further ahead, or it might loop forever */
	for (; decoding->tries; decoding->tries--) {
		status = pt_blk_sync_forward(decoding->blocks);
		if (status == -pte_eos)
			break;
		if (status < 0) {
			note_error(decoding, pt_errstr(pt_errcode(status)));
			if (status == -pte_nomem)
				break;
			continue;
		}
		if (pt_blk_get_sync_offset(decoding->blocks, &sync) || sync < decoding->sync_floor)
			continue;
		decoding->sync_floor = sync + 1;
		return status;
	}
	return -pte_eos;
}

/* ---- blocks ---- */

static int read_code(uint8_t *buffer, size_t size, const struct pt_asid *asid, uint64_t ip,
		     void *context)
{
	struct decoding *decoding = context;
	struct codes *codes = decoding->weave->codes;
	size_t got = decoding->is_guest ? 0 : codes->read(codes, ip, buffer, size);

	(void)asid; /* a thread has one process's code, and the kernel's half is one for all */
	return got ? (int)got : -pte_nomap;
}

/* The instructions of a block, which continues through direct jumps and calls. */
static int on_block(struct decoding *decoding, const struct pt_block *block)
{
	uint64_t at = block->ip, last = 0;
	int err = 0;

	if (!block->ninsn)
		return 0;
	decoding->idle_insns += block->ninsn;
	if (block->mode != ptem_64bit) {
		decoding->is_foreign = 1;
		return weave_flush(decoding->weave);
	}
	if (decoding->is_foreign)
		err = weave_event(decoding->weave, TRAIL_GAP, at, TRAIL_GAP_NATIVE, 0);
	decoding->is_foreign = 0;
	for (unsigned int i = 0; i < block->ninsn && !err; i++) {
		const struct block_insn *insn = weave_look(decoding->weave, at);
		int is_jump = insn && (insn->kind == TRAIL_JUMP || insn->kind == TRAIL_CALL);

		if (!insn || (!is_jump && insn->kind != TRAIL_FALL && i + 1 < block->ninsn))
			return on_error(decoding, "code that is not what ran");
		last = at;
		at = is_jump ? insn->target : at + insn->bytes;
		err = weave_insn(decoding->weave, last);
	}
	if (!err && last != block->end_ip)
		err = on_error(decoding, "code that is not what ran");
	return err;
}

/* ---- events ---- */

/* The switches that are behind us. */
static int give_switches(struct decoding *decoding, uint64_t ip)
{
	const struct pt_stream *stream = decoding->stream;
	struct weave *weave = decoding->weave;
	int err = 0;

	while (!err && decoding->next_switch < stream->switch_count &&
	       stream->switches[decoding->next_switch].offset <= decoding->offset) {
		const struct pt_switch *one = &stream->switches[decoding->next_switch++];

		time_at_least(decoding, one->depart_ticks);
		err = weave_event(weave, TRAIL_DEPART, decoding->left_at ? decoding->left_at : ip,
				  0, 0);
		if (!one->arrive_ticks || err)
			continue;
		time_at_least(decoding, one->arrive_ticks);
		err = weave_event(weave, TRAIL_ARRIVE, ip, 0, 0);
	}
	return err;
}

/* Those behind the last packet: the stream that follows has its own. */
static int give_rest(struct decoding *decoding)
{
	decoding->offset = UINT64_MAX;
	return give_switches(decoding, 0);
}

static int on_enabled(struct decoding *decoding, const struct pt_event *event)
{
	struct weave *weave = decoding->weave;
	uint64_t ip = event->variant.enabled.ip;
	enum away away = decoding->away;
	int err = weave_flush(weave), is_return;

	is_return = weave->before.kind == TRAIL_SYSCALL &&
		    weave->before.start + weave->before.bytes == ip;
	if (!err)
		err = give_switches(decoding, ip);
	if (!err && away == AWAY_KERNEL && !is_return && !decoding->is_foreign)
		err = weave_event(weave, TRAIL_GAP, ip, TRAIL_GAP_KERNEL, 0);
	decoding->away = AWAY_NOT;
	decoding->left_at = 0;
	return err;
}

static int on_left(struct decoding *decoding, uint64_t at)
{
	decoding->away = AWAY_KERNEL;
	decoding->left_at = at;
	return weave_flush(decoding->weave);
}

static int on_branch(struct decoding *decoding, const struct pt_event *event)
{
	uint64_t reason = decoding->is_aborted ? TRAIL_GAP_NATIVE : TRAIL_GAP_KERNEL;
	uint64_t from = event->variant.async_branch.from,
		 to = event->ip_suppressed ? 0 : event->variant.async_branch.to;
	int is_aborted = decoding->is_aborted;

	decoding->is_aborted = 0;
	if (to >= TRAIL_KERNEL && !is_aborted)
		return weave_event(decoding->weave, TRAIL_SIGNAL, from, 0, to);
	return weave_event(decoding->weave, TRAIL_GAP, to, reason, 0);
}

static int on_overflow(struct decoding *decoding, const struct pt_event *event)
{
	decoding->away = event->ip_suppressed ? AWAY_LOST : AWAY_NOT;
	return weave_event(decoding->weave, TRAIL_LOST,
			   event->ip_suppressed ? 0 : event->variant.overflow.ip, 0, 0);
}

static int on_event(struct decoding *decoding, const struct pt_event *event)
{
	bound_time(decoding);
	if (event->has_tsc)
		time_at_least(decoding, ticks_of(decoding, event->tsc));
	switch (event->type) {
	case ptev_enabled:
		return on_enabled(decoding, event);
	case ptev_disabled:
		return on_left(decoding, 0);
	case ptev_async_disabled:
		return on_left(decoding, event->variant.async_disabled.at);
	case ptev_async_branch:
		return on_branch(decoding, event);
	case ptev_overflow:
		return on_overflow(decoding, event);
	case ptev_tsx:
		decoding->is_aborted = event->variant.tsx.aborted;
		return 0;
	case ptev_paging:
		decoding->is_guest = event->variant.paging.non_root;
		return 0;
	case ptev_async_paging:
		decoding->is_guest = event->variant.async_paging.non_root;
		return 0;
	default: /* power states, frequencies: no way that was taken */
		return 0;
	}
}

/* ---- all of it ---- */

/* All events that are pending. A libipt status. */
static int take_events(struct decoding *decoding, int status, int *err)
{
	struct pt_event event;

	while (status >= 0 && status & pts_event_pending && !*err) {
		status = pt_blk_event(decoding->blocks, &event, sizeof(event));
		if (status >= 0)
			*err = on_event(decoding, &event);
	}
	return status;
}

/* From a place where decoding begins to the end, or an error. A libipt status. */
static int decode_on(struct decoding *decoding, int status, int *err)
{
	while (!*err) {
		struct pt_block block = { 0 };
		uint64_t errors = decoding->outcome->errors;

		status = take_events(decoding, status, err);
		if (status < 0 || *err)
			break;
		if (status & pts_eos)
			return -pte_eos;
		status = pt_blk_next(decoding->blocks, &block, sizeof(block));
		bound_time(decoding);
		*err = on_block(decoding, &block);
		if (status >= 0 && decoding->outcome->errors == errors &&
		    decoding->idle_insns > IDLE_INSNS_MAX)
			*err = on_error(decoding, "code that never ends");
		if (decoding->outcome->errors != errors)
			return -pte_nosync;
	}
	if (status < 0 && status != -pte_eos && !*err)
		*err = on_error(decoding, decoding->is_guest ? "code of a guest"
							     : pt_errstr(pt_errcode(status)));
	return status;
}

static int decoding_open(struct decoding *decoding)
{
	const struct pt_stream *stream = decoding->stream;
	struct pt_config config;

	pt_config_init(&config);
	/* libipt's decoders only read, though they don't say so */
	config.begin = (uint8_t *)(uintptr_t)stream->bytes;
	config.end = config.begin + stream->count;
	if (stream->family) {
		config.cpu = (struct pt_cpu){ pcv_intel, stream->family, stream->model,
					      stream->stepping };
		pt_cpu_errata(&config.errata, &config.cpu);
	}
	decoding->blocks = pt_blk_alloc_decoder(&config);
	decoding->packets = pt_pkt_alloc_decoder(&config);
	if (!decoding->blocks || !decoding->packets)
		return -ENOMEM;
	pt_pkt_sync_forward(decoding->packets);
	return pt_image_set_callback(pt_blk_get_image(decoding->blocks), read_code, decoding)
		       ? -ENOMEM
		       : 0;
}

/* Whether there is anything before the first place where decoding can begin. */
static int has_passed_over(const struct decoding *decoding)
{
	const struct pt_stream *stream = decoding->stream;
	uint64_t first = decoding->sync_floor ? decoding->sync_floor - 1 : stream->count;

	for (uint64_t i = 0; i < first; i++)
		if (stream->bytes[i]) /* PAD is zeros */
			return 1;
	return 0;
}

/* How the stream before ended holds for this one, if all of it can be decoded. */
static int take_place(struct decoding *decoding)
{
	const struct pt_place *place = decoding->stream->place;
	const struct weave *weave = decoding->weave;

	if (has_passed_over(decoding)) {
		/* once is enough */
		if (weave->losses && !weave->before.instructions && !weave->next)
			return 0;
		return weave_lost(decoding->weave);
	}
	if (place && place->is_away) {
		decoding->away = AWAY_KERNEL;
		decoding->left_at = place->left_at;
	}
	return 0;
}

int pt_decode(struct weave *weave, const struct pt_stream *stream, struct pt_outcome *outcome)
{
	struct decoding decoding = { .weave = weave,
				     .stream = stream,
				     .outcome = outcome,
				     .away = AWAY_LOST,
				     .tries = stream->count / PSB_BYTES + 1 };
	int err = 0, status;

	if (!stream->count)
		return 0;
	err = decoding_open(&decoding);
	status = err ? 0 : synchronize(&decoding);
	if (!err)
		err = take_place(&decoding);
	while (!err && status >= 0) {
		status = decode_on(&decoding, status, &err);
		if (!err && status != -pte_eos)
			status = synchronize(&decoding);
	}
	if (!err)
		err = give_rest(&decoding);
	time_at_least(&decoding, stream->end_ticks);
	if (!err)
		err = weave_flush(weave);
	if (stream->place)
		*stream->place = (struct pt_place){ decoding.away == AWAY_KERNEL,
						    decoding.left_at };
	pt_blk_free_decoder(decoding.blocks);
	pt_pkt_free_decoder(decoding.packets);
	return err;
}
