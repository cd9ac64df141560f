/* SPDX-License-Identifier: MIT */
/*
 * Every macro, in each language level of C from C11 and of C++ from C++11, with both compilers:
 * none may warn, neither about itself nor about the code around it.
 */
#include <waymark/marker.h>

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
