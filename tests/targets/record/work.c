/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/marker.h>
static void *work(void *data)
{
	for (int i = 0; i < 2000; i++) {
		WAYMARK_SCOPE(work, item, i);
		if (i % 100 == 0)
			WAYMARK(work, mark, i, WM_FIELD(text, "abc"));
	}
	return data;
}
int main(void)
{
	pthread_t thread;
	int child = fork();

	pthread_create(&thread, 0, work, 0);
	work(0);
	pthread_join(thread, 0);
	return child ? waitpid(child, 0, 0) != child : 0;
}
