/* SPDX-License-Identifier: MIT */
/* The same two events as an LTTng-UST provider. LTTng reads this file several times. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER waymark_bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "bench/lttng/provider.h"

#if !defined(BENCH_LTTNG_PROVIDER_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define BENCH_LTTNG_PROVIDER_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(waymark_bench, number, LTTNG_UST_TP_ARGS(int, a, uint64_t, b),
			   LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, a, a)
						       lttng_ust_field_integer(uint64_t, b, b)))

LTTNG_UST_TRACEPOINT_EVENT(waymark_bench, text, LTTNG_UST_TP_ARGS(int, a, const char *, text),
			   LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, a, a)
						       lttng_ust_field_string(text, text)))

#endif

#include <lttng/tracepoint-event.h>
