/* SPDX-License-Identifier: MIT */
/*
 * Variables of all kinds, for the tests of watches: compiled by them, with each compiler in several
 * ways.
 */
#include "target/expression/testing/sample_watch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum colour { RED, GREEN, BLUE = 7, BACK = -2 };
enum mode { READ = 1, WRITE = 2, EXECUTE = 4 };
enum style { PLAIN = 0, BOLD = 1, STRIPED = 6 };

struct point {
	int x, y;
};

struct bits {
	unsigned int low : 3;
	int middle : 5;
	unsigned int wide : 20;
	unsigned long long far : 40;
	bool flag : 1;
	enum colour colour : 4;
};

struct __attribute__((packed)) packed {
	char tag;
	int value;
	unsigned int across : 13;
	unsigned int more : 14;
};

struct __attribute__((packed)) tight {
	char tag;
	unsigned int value : 16;
};

struct node {
	long value;
	struct node *next;
	struct point where;
	union {
		int number;
		float real;
	};
	struct {
		short left, right;
	};
};

union either {
	long number;
	double real;
	char text[8];
};

struct hidden;

struct flexible {
	int count;
	int items[];
};

typedef struct point place;
typedef int (*operation)(int, const char *);
typedef place places[2];

static int add(int a, const char *b)
{
	return a + (b != NULL);
}

char a_char = 'a', escaped = '\n', high = (char)200, quote = '\'';
signed char small = -5;
unsigned char byte = 250;
short a_short = -300;
unsigned short ushort_v = 65000;
int counter = 42;
unsigned int uint_v = 4000000000u;
long a_long = -1234567890123;
unsigned long long ulonglong = 18000000000000000000ull;
bool yes = true, no = false;
float single = 1.5f, third = 1.0f / 3.0f;
double real = -2.25e-10, tenth = 0.1, whole = 100;
long double extended = 1.25L;
__float128 quad = 1.5, odd_quad = -0.1, third_quad = (__float128)1 / 3;
#ifndef __clang__
struct __attribute__((scalar_storage_order("big-endian"))) {
	int number;
} foreign = { 1 };
#endif
__int128 huge = -5;
_Complex double complex_v = 1.0 + 2.0i;
enum colour colour = BLUE, odd_colour = (enum colour)5, back = BACK;
enum mode mode = WRITE, modes = READ | EXECUTE, odd_mode = 67, no_mode = 0;
enum style style = STRIPED, odd_style = 7;
struct point point = { 3, -4 };
const struct point fixed = { 5, 6 };
volatile int volatile_v = 9;
place a_place = { 1, 2 };
places both = { { 1, 2 }, { 3, 4 } };
struct bits bits = { 5, -3, 0xabcde, 0x123456789aull, true, BLUE };
struct packed packed = { 'p', 77, 4097, 8193 };
struct tight tight = { 't', 0xfedc };
union either either = { .real = 0.5 };
int matrix[3][4] = { { 1, 2, 3, 4 }, { 5, 6, 7, 8 }, { 9, 10, 11, 12 } };
struct point line[4] = { { 1, 1 }, { 2, 2 }, { 3, 3 }, { 4, 4 } };
char text[8] = "abc", full[4] = { 'f', 'u', 'l', 'l' }, zeros[16];
unsigned char raw[6] = { 1, 2, 3, 255 };
int same[12] = { 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8 };
struct node third_node = { .value = 3, .number = 33, .left = 3 };
struct node second_node = { .value = 2, .next = &third_node, .number = 22 };
struct node first_node = { .value = 1, .next = &second_node, .where = { 11, 12 }, .right = -1 };
struct node *list = &first_node, **list_at = &list;
struct node *lost;
struct node *wild = (struct node *)0x10;
void *anything = &counter;
struct {
} empty;
int *counter_at = &counter, (*rows)[4] = matrix, *in_text = NULL;
operation apply = add;
operation table[2] = { add, NULL };
const char *const name = "waymark";
struct hidden *secret = (struct hidden *)&point;
struct flexible *flexible = (struct flexible *)same;
struct sample_other *other_at = &sample_other;
int (*numbers)(void) = sample_count;
_Thread_local int per_thread = 5;
_Thread_local long per_thread_too = 6;
#ifndef __clang__
register long pinned asm("r15");
#endif
static volatile int shared = 1; /* so is one of sample_watch_twin.c */

int next_id(void)
{
	static volatile int last = 100;

	return ++last;
}

int other_id(void)
{
	static volatile int last = 200;
	int local = ++last;

	{
		static volatile long nested = 300;

		local += (int)++nested;
	}
	return local;
}

int sample_sum(void)
{
	return shared + next_id() + other_id() + per_thread + (int)per_thread_too + add(1, name);
}
