/* SPDX-License-Identifier: MIT */
/* One thread writes values and another sees them: an event for each. */
#include <pthread.h>
#include <stdatomic.h>
#include <waymark/marker.h>

enum { WRITES = 200000 };

static atomic_uint word;
static volatile unsigned long divisor = 3;

static void *write_word(void *unused)
{
	for (unsigned int i = 1; i <= WRITES; i++) {
		WAYMARK(hand, wrote, i);
		atomic_store_explicit(&word, i, memory_order_release);
		__builtin_ia32_pause();
		__builtin_ia32_pause();
	}
	return unused;
}

int main(void)
{
	unsigned int value = 0;
	pthread_t writer;

	pthread_create(&writer, NULL, write_word, NULL);
	while (value < WRITES) {
		/* the load waits for a division, and the clock need not */
		unsigned long late = value / divisor + 1;

		value = atomic_load_explicit(&word + (late == 0), memory_order_acquire);
		WAYMARK(hand, saw, value);
	}
	return pthread_join(writer, NULL);
}
