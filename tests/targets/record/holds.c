/* SPDX-License-Identifier: MIT */
#include <unistd.h>
#include <waymark/marker.h>
void library_step(int count);
int main(void)
{
	for (int i = 0;; i++) {
		WAYMARK(holds, round, i);
		library_step(i);
		usleep(1000);
	}
}
