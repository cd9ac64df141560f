// SPDX-License-Identifier: MIT
// What C++ alone has: templates, lambdas, constexpr if, constructors, exceptions, enum classes.
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "inline.h"

namespace
{

enum class small : std::uint8_t { one = 1, two = 2 };

template <int n> KEEP int counted(int value)
{
	WAYMARK(cxx, counted, value, n);
	return value + n;
}

template <class T> KEEP T chosen(T value)
{
	if constexpr (sizeof(T) == 8) {
		WAYMARK(cxx, wide, value);
	} else {
		WAYMARK(cxx, narrow, value);
	}
	return value;
}

/* As a base class, so that complete and base constructors are two copies. */
struct base {
	explicit base(int value)
	{
		WAYMARK(cxx, constructed, value);
	}
	virtual ~base()
	{
		WAYMARK(cxx, destroyed);
	}
	virtual int get() const
	{
		WAYMARK(cxx, virtual_call, this);
		return 1;
	}
};

struct derived : virtual base {
	derived() : base(2)
	{
	}
	int get() const override
	{
		return base::get() + 1;
	}
};

KEEP int thrower(int value)
{
	WAYMARK_SCOPE(cxx, scope, value);
	if (value > 1)
		throw std::runtime_error("thrown");
	return value;
}

KEEP int catcher(int value)
{
	try {
		WAYMARK(cxx, tried, value);
		return thrower(value);
	} catch (const std::exception &error) {
		WAYMARK(cxx, caught, error.what());
		return -1;
	}
}

/* A member through `this`, by name and from a lambda; markers on both sides of objects. */
struct holder {
	int member = 3;
	std::string text = "held";

	KEEP int run()
	{
		WAYMARK(cxx, member, member, this->member, text.c_str());
		std::string first("first");
		auto inner = [this, &first](auto more) {
			std::string second(first);
			WAYMARK(cxx, member, member, member + more, second.c_str());
		};
		inner(1);
		for (int i = 0; i < 2; i++) {
			std::string third("third");
			WAYMARK_SCOPE(cxx, held, third.size());
			WAYMARK(cxx, member, i, this->member, third.c_str());
		}
		auto [low, high] = std::pair<int, int>(1, 2);
		WAYMARK(cxx, member, low, high, "bound");
		return member;
	}
};

/*
 * Constructed where the argument is evaluated: only while armed, and gone before the next
 * statement.
 */
KEEP void temporaries()
{
	std::string text("temporary");

	WAYMARK(cxx, text, text + "!", text.size(), std::string("x").empty());
	if (armed) {
		std::size_t size;

		std::memcpy(&size, arm_seen('m', "cxx", "text")->payload + 16, sizeof size);
		CHECK(size == 9);
	}
}

KEEP void types()
{
	small value = small::two;
	const int &reference = 7;
	int base::*none = nullptr;

	(void)none;
	WAYMARK(cxx, types, value, nullptr, reference, u8'x', L'y', static_cast<const char *>("z"));
	const seen *got = arm_seen('m', "cxx", "types");
	CHECK(got->types[0] == WM_TYPE_U8 && got->types[1] == WM_TYPE_PTR &&
	      got->types[2] == WM_TYPE_I32);
	CHECK(got->types[5] == WM_TYPE_STR);
	if (armed)
		CHECK(got->payload[0] == 2);
}

} // namespace

extern "C" int cxx_from_c(int value);
extern "C" int cxx_from_c(int value)
{
	WAYMARK(cxx, from_c, value);
	return value;
}

static void run_classes()
{
	{
		derived one;
		base two(3);
		const base *volatile far = &one;

		CHECK(far->get() == 2);
		CHECK(two.get() == 1);
	}
	CHECK_HITS('m', cxx, constructed, 2);
	CHECK_HITS('m', cxx, destroyed, 2);
	CHECK_HITS('m', cxx, virtual_call, 2);
}

extern "C" void cxx_run()
{
	auto typed = [](int value) { WAYMARK(cxx, lambda, value); };
	auto generic = [](auto value) { WAYMARK(cxx, generic, sizeof value); };
	std::vector<int> numbers = { 1, 2, 3 };

	arm_reset();
	CHECK(counted<1>(1) + counted<2>(1) == 5);
	CHECK(chosen(1) + static_cast<int>(chosen(2L)) == 3);
	for (int number : numbers)
		typed(number);
	generic(1);
	generic(2.0);
	run_classes();
	CHECK(catcher(1) == 1);
	CHECK(catcher(2) == -1);
	temporaries();
	types();
	CHECK(holder().run() == 3);
	CHECK(cxx_from_c(4) == 4);
	CHECK_HITS('m', cxx, member, 5);
	CHECK_HITS('b', cxx, held, 2);
	CHECK_HITS('e', cxx, held, 2);
	CHECK_HITS('m', cxx, counted, 2);
	CHECK_HITS('m', cxx, wide, 1);
	CHECK_HITS('m', cxx, narrow, 1);
	CHECK_HITS('m', cxx, lambda, 3);
	CHECK_HITS('m', cxx, generic, 2);
	CHECK_HITS('b', cxx, scope, 2);
	CHECK_HITS('e', cxx, scope, 2);
	CHECK_HITS('m', cxx, caught, 1);
	CHECK_HITS('m', cxx, text, 1);
	CHECK_HITS('m', cxx, from_c, 1);
	CHECK_HITS('m', cxx, types, 1);
}
