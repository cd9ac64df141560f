/* SPDX-License-Identifier: MIT */
/* Says by its status whether it has root's rights. */
#include <unistd.h>

int main(void)
{
	return geteuid() ? 90 : 91;
}
