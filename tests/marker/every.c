/* SPDX-License-Identifier: MIT */
/*
 * Every macro, in each language level of C from C11 and of C++ from C++11, with both compilers:
 * none may warn, neither about itself nor about the code around it.
 */
#include <waymark/handler.h>
#include <waymark/marker.h>
#include <waymark/probe.h>

#include <stdbool.h>
#ifdef __cplusplus
#include <chrono>
#include <string>
#endif

enum every_state { EVERY_IDLE, EVERY_BUSY = 4 };

struct every_packet {
	unsigned short port;
	unsigned int flags : 5;
	unsigned char key[8];
	enum every_state state;
	const char *name;
};

int every_values(const struct every_packet *packet, const double *row, int count);
int every_spans(int count);
int every_conditions(int count);

int every_values(const struct every_packet *packet, const double *row, int count)
{
	WAYMARK_SCOPE(every, scope, packet, WM_FIELD(name, packet->name));
	int sum = count;

	WAYMARK(every, bare);
	WAYMARK(every, values, count, packet->name, "text", 1.5, 1.5F, 'c', packet->flags, row);
	WAYMARK(every, runs, WM_BYTES(packet->key, sizeof packet->key), WM_ARRAY(row, count),
		WM_ARRAY(packet->key, 8), WM_HEX(WM_ARRAY(packet->key, count)));
	WAYMARK(every, said, WM_HEX(packet->flags), WM_NET(packet->port),
		WM_ENUM(packet->state, EVERY_IDLE, EVERY_BUSY = 4), WM_FIELD(x, WM_HEX(count + 1)));
	WAYMARK_SDT(every, sdt, count, packet->name, WM_NET(packet->port));
	sum += packet->port;
	return sum;
}

int every_spans(int count)
{
	WAYMARK_BEGIN(every, span, count);
	WAYMARK_END(every, span, WM_FIELD(more, count + 1));
	WAYMARK_LEVEL(info, every, leveled, count);
	WAYMARK_BEGIN_LEVEL(debug, every, deep);
	WAYMARK_END_LEVEL(debug, every, deep, count);
	for (int i = 0; i < count; i++) {
		WAYMARK_SCOPE_LEVEL(warning, every, narrow, i);
		count -= i;
	}
	return count + 1;
}

int every_conditions(int count)
{
	if (count > 3)
		WAYMARK(every, branch, count);
	else
		WAYMARK(every, other);
	WAYMARK_IF(every, block)
	{
		count++;
	}
	for (int i = 0; i < count; i++) {
		WAYMARK_SCOPE(every, turn, i);
		WAYMARK_SCOPE(every, inner);
		int twice = 2 * i;

		WAYMARK(every, twice, twice);
	}
	return count;
}

WM_PROBE(every, values, int, const char *, const char *, double, float, char, unsigned int, void *);
WM_PROBE(every, bare);
WM_PROBE_BEGIN(every, span, int);
WM_PROBE_END(every, span, int);

static int every_sum;

static void every_on_values(void *data, int count, const char *name, const char *text, double real,
			    float narrow, char letter, unsigned int flags, void *row)
{
	(void)data, (void)name, (void)text, (void)real, (void)narrow, (void)letter, (void)row;
	every_sum += count + (int)flags;
}

static void every_on_bare(void *data)
{
	(void)data;
}

static void every_on_span(void *data, int count)
{
	(void)data;
	every_sum += count;
}

int every_handlers(struct wm_probe *probes[4]);
int every_handlers(struct wm_probe *probes[4])
{
	int error = wm_probe_add_every_values(&probes[0], every_on_values, 0);

	if (!error)
		error = wm_probe_add_every_bare(&probes[1], every_on_bare, probes);
	if (!error)
		error = wm_probe_begin_every_span(&probes[2], every_on_span, &every_sum);
	return error ? error : wm_probe_end_every_span(&probes[3], &every_on_span, &every_sum);
}

/* Handlers from outside: those that use no argument, and those that use all. */
WM_MARKER_PROBE(every, values, int, const char *, char, unsigned int, void *, struct wm_bytes)
{
	every_sum += arg1 + (int)arg4 + arg3 + (arg2 ? *arg2 : 0) + (arg5 ? 1 : 0);
	return arg6.bytes > 2 ? WM_REJECT : WM_RECORD;
}
WM_BEGIN_PROBE(every, span, int)
{
	return WM_RECORD;
}
WM_END_PROBE(every, span)
{
	WAYMARK(every, ended, every_sum);
	return WM_REJECT;
}
WM_USDT_PROBE(every, probe, long, short, bool)
{
	return arg1 > arg2 && arg3 ? WM_RECORD : WM_REJECT;
}
WM_FUNC_PROBE(libc, malloc, size_t)
{
	return arg1 > 4096 ? WM_RECORD : WM_REJECT;
}
WM_FUNC_PROBE(any, place, double, float, int, int, int, int, int, int, int, int, int, int, int, int,
	      int, int)
{
	return arg1 > 0.5 && arg16 ? WM_RECORD : WM_REJECT;
}
WM_RETURN_PROBE(libc, open, int, const char *, int)
{
	return result < 0 && duration > 1000 && arg1 && arg2 ? WM_RECORD : WM_REJECT;
}
WM_RETURN_PROBE(libc, getpid, int)
{
	return WM_REJECT;
}

#ifdef __cplusplus
class every_class
{
	enum class state { idle, busy };
	std::string name_ = "name";
	std::chrono::milliseconds wait_{ 5 };
	state state_ = state::idle;

      public:
	int run(int count)
	{
		WAYMARK_SCOPE(every, run, name_, state_);
		int one = 1;

		WAYMARK(every, members, name_, wait_, WM_ENUM(state_, state::idle, state::busy),
			this);
		return one + count;
	}
};

int every_objects(int count);
int every_objects(int count)
{
	return every_class().run(count);
}
#endif
