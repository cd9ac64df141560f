// SPDX-License-Identifier: MIT
// Markers with fields of each type, whose values tests/marker_types.sh knows.
#include <chrono>
#include <string>
#include <vector>

#include <waymark/marker.h>

enum class state { idle, busy = 4 };

static std::string made(int number)
{
	return "made for number " + std::to_string(number);
}

int main()
{
	const unsigned short port = 0xbb01; // 443 in network order
	const double reals[] = { 0.5, -1 };
	const std::vector<unsigned int> words = { 1, 0xffffffff };
	const std::vector<long> many(600, 7);
	const std::string none, text("a \"text\"\n");
	state now = state::busy;

	WAYMARK(typed, arrays, WM_ARRAY(reals, 2), words, WM_HEX(words),
		WM_ARRAY((int *)nullptr, 3));
	WAYMARK(typed, cut, many);
	WAYMARK(typed, numbers, WM_HEX(port), WM_NET(port), WM_HEX((signed char)-2),
		&now == nullptr);
	WAYMARK(typed, labels, WM_ENUM(now, state::idle, state::busy = 4),
		WM_FIELD(other, WM_ENUM(3, A)));
	WAYMARK(typed, strings, text, none, made(1));
	WAYMARK(typed, times, WM_FIELD(wait, std::chrono::milliseconds(5)));
}
