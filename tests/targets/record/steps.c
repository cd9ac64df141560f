/* SPDX-License-Identifier: MIT */
/*
 * A listening program and, with -DLIBRARY, its library: both have one marker. It makes 111 hits
 * for each byte of descriptor 3.
 */
#include <unistd.h>
#include <waymark/agent.h>
#include <waymark/marker.h>

void library_step(int count);

static inline void step(int count)
{
	for (int i = 0; i < count; i++)
		WAYMARK(steps, step, i);
}

#ifdef LIBRARY
void library_step(int count)
{
	step(count);
}
#else
int main(void)
{
	char order;

	if (wm_agent_listen())
		return 1;
	while (read(3, &order, 1) == 1) {
		step(100);
		library_step(11);
		if (write(4, "\n", 1) != 1)
			return 1;
	}
	return 0;
}
#endif
