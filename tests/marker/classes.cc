// SPDX-License-Identifier: MIT
// What C++ values are recorded as, from C++11 on: classes of the library, and members of all kinds.
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>
#if __cplusplus >= 201703L
#include <string_view>
#endif

#include "check.h"

namespace
{

template <class T> T payload(const seen *got, std::size_t offset)
{
	T value;

	std::memcpy(&value, got->payload + offset, sizeof value);
	return value;
}

/* An array of `count` elements that begin with `first`. */
void check_array(const seen *got, int field, int type, const char *first, unsigned long long count)
{
	std::size_t at = static_cast<std::size_t>(field) * 16;

	CHECK(got->types[field] == (WM_TYPE_ARRAY | type));
	if (!armed)
		return;
	CHECK(payload<unsigned long long>(got, at + 8) == count);
	if (count && first)
		CHECK(*payload<const char *>(got, at) == *first);
}

KEEP std::string made(const char *text)
{
	return std::string(text) + ", made for this";
}

KEEP void strings()
{
	const std::string text("te\0xt", 5), none;
	const seen *got;

	WAYMARK(classes, strings, text, made("x"), none, text + "more");
	got = arm_seen('m', "classes", "strings");
	CHECK_HITS('m', classes, strings, 1);
	check_array(got, 0, WM_TYPE_CHAR, "t", 5);
	check_array(got, 1, WM_TYPE_CHAR, nullptr, 16); /* it is gone */
	check_array(got, 2, WM_TYPE_CHAR, "", 0);
	check_array(got, 3, WM_TYPE_CHAR, nullptr, 9);
#if __cplusplus >= 201703L
	WAYMARK(classes, views, std::string_view("view of it").substr(0, 4));
	check_array(arm_seen('m', "classes", "views"), 0, WM_TYPE_CHAR, "v", 4);
#endif
}

KEEP void rows()
{
	const std::vector<double> reals = { 0, 1, 2 };
	const std::array<unsigned short, 2> two = { { 'a', 'b' } };
	std::vector<char> chars(3, 'c');
	const seen *got;

	WAYMARK(classes, rows, reals, two, WM_HEX(two), chars,
		WM_ARRAY(reals.data(), reals.size()));
	got = arm_seen('m', "classes", "rows");
	check_array(got, 0, WM_TYPE_F64, "", 3);
	check_array(got, 1, WM_TYPE_U16, "a", 2);
	check_array(got, 2, WM_TYPE_U16, "a", 2);
	check_array(got, 3, WM_TYPE_CHAR, "c", 3);
	check_array(got, 4, WM_TYPE_F64, "", 3);
}

KEEP void times()
{
	typedef std::chrono::duration<double> real_seconds;
	typedef std::chrono::duration<int, std::ratio<1, 3>> thirds;
	const std::chrono::milliseconds wait(-1500);
	const std::chrono::steady_clock::time_point then(std::chrono::nanoseconds(12345));
	const seen *got;

	WAYMARK(classes, times, wait, std::chrono::hours(2), then, real_seconds(0.25), thirds(4));
	got = arm_seen('m', "classes", "times");
	for (int i = 0; i < 5; i++)
		CHECK(got->types[i] == WM_TYPE_I64);
	if (!armed)
		return;
	CHECK(payload<long long>(got, 0) == -1500000000);
	CHECK(payload<long long>(got, 8) == 7200000000000);
	CHECK(payload<long long>(got, 16) == 12345);
	CHECK(payload<long long>(got, 24) == 250000000);
	CHECK(payload<long long>(got, 32) == 1333333333);
}

class service
{
      public:
	KEEP void run() const
	{
		WAYMARK_SCOPE(classes, scope, state_, name_);
		const seen *got;

		WAYMARK(classes, members, state_, most, limit, count_, low_, port_, ratio_, self_,
			is_open_, WM_ENUM(state_, idle, busy = 4), WM_NET(port_), WM_HEX(count_),
			letters_, seen_);
		got = arm_seen('m', "classes", "members");
		CHECK_HITS('m', classes, members, 1);
		CHECK(got->types[0] == WM_TYPE_U16 && got->types[1] == WM_TYPE_I32);
		CHECK(got->types[2] == WM_TYPE_I64 && got->types[3] == WM_TYPE_I32);
		CHECK(got->types[4] == WM_TYPE_U32 && got->types[5] == WM_TYPE_U16);
		CHECK(got->types[6] == WM_TYPE_F64 && got->types[7] == WM_TYPE_PTR);
		CHECK(got->types[8] == WM_TYPE_BOOL && got->types[9] == WM_TYPE_U16);
		CHECK(got->types[12] == WM_TYPE_STR && got->types[13] == WM_TYPE_U64);
		if (!armed)
			return;
		CHECK(payload<unsigned short>(got, 0) == 4 && payload<int>(got, 2) == 7);
		CHECK(payload<long long>(got, 6) == -9 && payload<int>(got, 14) == 42);
		CHECK(payload<unsigned int>(got, 18) == 5 && payload<short>(got, 22) == 0x1234);
		CHECK(payload<const service *>(got, 32) == this && payload<char>(got, 40) == 1);
		CHECK(payload<short>(got, 41) == 4 && payload<short>(got, 43) == 0x3412);
		CHECK(payload<int>(got, 45) == 42 && payload<const char *>(got, 49) == letters_);
		CHECK(payload<unsigned long long>(got, 57) == 11);
	}

      private:
	enum class state : unsigned short { idle, busy = 4 };

	static const int most = 7; /* never defined: only its value may be used */
	static constexpr long limit = -9;

	std::string name_ = "service";
	state state_ = state::busy;
	std::atomic<int> count_{ 42 };
	unsigned int low_ : 3;
	unsigned short port_ = 0x1234;
	double ratio_ = 0.5;
	const service *const self_ = this;
	bool is_open_ = true;
	char letters_[4] = "abc";
	mutable volatile unsigned long seen_ = 11;

      public:
	service() : low_(5)
	{
	}
};

/* A place that is an instance of a template for each type. */
template <class T> KEEP void generic(const T &value)
{
	WAYMARK(classes, generic, sizeof value);
	WAYMARK_BEGIN(classes, span, WM_HEX(value));
	WAYMARK_END(classes, span);
}

} // namespace

extern "C" void classes_run()
{
	arm_reset();
	strings();
	rows();
	times();
	service().run();
	CHECK_HITS('b', classes, scope, 1);
	CHECK_HITS('e', classes, scope, 1);
	generic(1);
	generic(2);
	CHECK_HITS('m', classes, generic, 2);
	CHECK_HITS('b', classes, span, 2);
}
