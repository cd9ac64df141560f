/* SPDX-License-Identifier: MIT */
#include <atomic>
std::atomic<long> total;
int main()
{
	total += 3; /* LINE add */
}
