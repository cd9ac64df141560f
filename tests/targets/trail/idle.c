/* SPDX-License-Identifier: MIT */
#include <unistd.h>
int idle(void)
{
	return pause();
}
int main(void)
{
	return idle();
}
