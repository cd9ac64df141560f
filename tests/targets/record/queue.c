/* SPDX-License-Identifier: MIT */
#include <unistd.h>
#include <waymark/marker.h>
int main(void)
{
	for (int job = 0;; job++) {
		WAYMARK_SDT(queue, push, job, WM_FIELD(priority, job % 3), "mail");
		pause();
	}
}
