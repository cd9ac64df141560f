/* SPDX-License-Identifier: MIT */
/*
 * A program that says itself where its variables lie: "PID", "base ADDRESS PATH" of each module,
 * "EXPRESSION ADDRESS" as this very compiler sees it, "end"; then it waits for its input's end.
 */
#include "target/expression/testing/sample_watch_live.h"

#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TELL(expr) printf("%s %p\n", #expr, (void *)&(expr))

struct node {
	struct node *next;
	struct {
		int value;
		unsigned char bytes[12];
	};
};

static struct node *head;
struct node **at_head = &head;
struct node *broken, *nothing;
static _Thread_local char first_of_thread = 1;
static _Thread_local struct node of_thread = { .value = 2 };
static _Thread_local int __attribute__((aligned(64))) aligned_of_thread;
int in_both = 3;
static int slots[3];

static int tell_base(struct dl_phdr_info *info, size_t bytes, void *data)
{
	(void)bytes;
	printf("base %#lx %s\n", (unsigned long)info->dlpi_addr,
	       *info->dlpi_name ? info->dlpi_name : (const char *)data);
	return 0;
}

int main(int argc, char **argv)
{
	static int inside;
	char byte;

	(void)argc;
	head = calloc(1, sizeof(*head));
	head->next = calloc(1, sizeof(*head));
	head->next->next = head;
	broken = (struct node *)0x1000;
	printf("%d\n", (int)getpid());
	dl_iterate_phdr(tell_base, argv[0]);
	printf("thread_pointer %p\n", __builtin_thread_pointer());
	TELL(head);
	TELL(*head);
	TELL(head->next->value);
	TELL(head->next->next->bytes[5]);
	TELL((*at_head)->next);
	TELL(at_head[0]->next->bytes);
	TELL(slots[2]);
	TELL(exported);
	TELL(thing->second);
	TELL(thing->inner[1].x);
	TELL(in_both);
	TELL(first_of_thread);
	TELL(of_thread.bytes[3]);
	TELL(aligned_of_thread);
	printf("main::inside %p\n", (void *)&inside);
	library_tell();
	printf("end\n");
	fflush(stdout);
	return read(0, &byte, 1) > 0;
}
