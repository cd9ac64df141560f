/* SPDX-License-Identifier: MIT */
/* A sampler as its own parts see it: sampler_open.c opens, sampler_record.c takes records apart. */
#ifndef RECORD_PERF_SAMPLER_OWN_H
#define RECORD_PERF_SAMPLER_OWN_H

#include "record/perf/rings.h"
#include "record/perf/sampler.h"
#include "record/perf/extent.h"

/* What every record has, so that each can be put in order before its event is known. */
#define SAMPLER_COMMON                                                                             \
	(PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |            \
	 PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD)

/* The layout of an event's samples. */
struct sampler_form {
	uint64_t sample_type;
	uint64_t user_regs, event_regs; /* as sample_regs_user and _intr */
	uint8_t excludes_kernel;	/* the kernel would not let us see it */
};

/* A record that was read, and can't be handed over yet. */
struct sampler_held {
	uint64_t time_ns;
	size_t at; /* in its lane's bytes */
};

/* Records of one ring, in order of time. */
struct sampler_lane {
	struct sampler_held *held;
	size_t first, count, room; /* those before `first` were handed over */
	uint8_t *bytes;
	size_t used, bytes_room;
	uint64_t lost_reported; /* by PERF_RECORD_LOST */
	uint64_t lost_counted;	/* by events that are closed */
};

struct sampler {
	const struct sampler_request *request;
	struct extent extent;
	struct rings rings;
	struct sampler_form *forms;
	struct sampler_lane *lanes; /* of rings.all[] */
	size_t lane_count, lane_room;
	uint64_t lost, throttled;
	uint64_t clock_offset_ns; /* of our time namespace; records have the first one's time */
	int counts_lost;	  /* PERF_FORMAT_LOST: Linux 6.0 */
	int is_last_counted;
};

/* Its attributes, whatever the kernel allows. */
struct sampler_form sampler_form_of(const struct sampler_event *event);

/*
 * Take a record apart: 1; 0: of no interest; -EBADMSG: too short, or of an unknown event. Its time
 * alone: 0, -EBADMSG.
 */
int sampler_record_read(struct sampler *sampler, const struct perf_event_header *header,
			struct sampler_record *record);
int sampler_record_time(const struct perf_event_header *header, uint64_t *time_ns);

#endif
