/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum color { RED, GREEN, BLUE };
static volatile struct spot {
	short x;
	short y;
} spot;
static volatile enum color color;
static volatile int seen, count;
static int unread;
int given, *pointer = &given;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static void paint(enum color with)
{
	color = with; /* LINE paint */
}

__attribute__((noinline)) static void look(void)
{
	seen = count; /* LINE look */
}

__attribute__((noinline)) static void add(void)
{
	pthread_mutex_lock(&lock);
	count++; /* LINE add */
	pthread_mutex_unlock(&lock);
}

static void *run(void *data)
{
	for (int i = 0; i < 100; i++)
		add();
	return data;
}

/* The compiler is not asked: an own function, entered by a jump. */
void (*leads_to)(void);
__asm__(".text\n.p2align 4\n.type led, @function\nled:\n.cfi_startproc\nret\n.cfi_endproc\n"
	".p2align 4\n.type leads, @function\nleads:\n.cfi_startproc\n"
	"jmp *leads_to(%rip)\n.cfi_endproc\n");
extern void led(void), leads(void);

int main(int words, char **word)
{
	pthread_t threads[4];

	if (words > 1) /* until it is killed */
		for (int i = 0; i < 3000; i++) {
			add();
			usleep(10000);
		}
	for (int i = 0; i < 3; i++)
		paint((enum color)i);
	unread = 1;
	spot.x = 1;
	spot.y = -2;
	*pointer = 7;
	look();
	leads_to = led;
	leads();
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, run, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	printf("%d\n", count);
	return word[0] && count == 400 ? 5 : 1;
}
