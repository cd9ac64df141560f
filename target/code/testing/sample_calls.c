/* SPDX-License-Identifier: MIT */
/*
 * Functions of all kinds of parameters, called with values that follow from their place: the Nth
 * parameter, counted from 1, is N, where it is a number at all, and each member of it is. A
 * parameter of another kind is called skip, for one field can't hold it.
 */
#include "target/code/testing/sample_call.h"

#include <stdbool.h>
#include <stdint.h>

#define FUNCTION __attribute__((noinline, used))
#define CALL(function, ...)                                                                        \
	do {                                                                                       \
		sample_target = (void *)function;                                                  \
		((__typeof__(&function))entrance)(__VA_ARGS__);                                    \
		done((void *)function, #function);                                                 \
	} while (0)

/* The compiler need not know what is called. */
static void *volatile entrance = (void *)sample_capture;

enum color { RED, GREEN, BLUE, OTHER = 7 };
enum sign { MINUS = -1, NOTHING, PLUS, TWO, THREE };
struct four {
	int a;
};
struct eight {
	int a;
	float b;
};
struct floats {
	float a, b, c;
};
struct mixed {
	double a;
	long b;
};
struct pair {
	long a, b;
};
struct big {
	long a, b, c;
};
struct packed {
	char a;
	long b;
} __attribute__((packed));
struct wide {
	long double a;
};
struct bits {
	unsigned a : 3, b : 30;
};
struct none {
};
struct nested {
	struct floats a;
	char b[4];
};
union either {
	double a;
	char b[8];
};
typedef int vector __attribute__((vector_size(16)));
typedef const volatile unsigned short odd;

FUNCTION static int integers(signed char a, unsigned char b, short c, odd d, int e, long f,
			     unsigned long long g, int h)
{
	__asm__ volatile("");
	return a + b + c + d + e + (int)f + (int)g + h;
}

FUNCTION static double floating(float a, double b, int c, float d, float e, float f, float g,
				float h, float i, double j, float k)
{
	__asm__ volatile("");
	return a + b + c + d + e + f + g + h + i + j + k;
}

FUNCTION static int small(bool a, char b, enum color c, enum sign d, _Bool e, void *f)
{
	__asm__ volatile("");
	return a + b + (int)c + (int)d + e + (f != 0);
}

FUNCTION static long aggregates(struct four skip1, int b, struct eight skip3, double d,
				struct floats skip5, float f, struct mixed skip7, long h, double i,
				struct pair skip10, int k, int l)
{
	__asm__ volatile("");
	return skip1.a + b + skip3.a + (long)d + (long)skip5.a + (long)f + skip7.b + h + (long)i +
	       skip10.a + k + l;
}

FUNCTION static struct big in_memory(int a, struct big skip2, double c, struct packed skip4, long e,
				     int f, int g, int h, int i, int j)
{
	__asm__ volatile("");
	return (struct big){ a + skip2.a, (long)c + skip4.b, e + f + g + h + i + j };
}

FUNCTION static struct wide wide(int a, struct wide skip2, int c, long double skip4, int e, int f,
				 int g, int h, short i, struct wide skip10, char k)
{
	__asm__ volatile("");
	return (struct wide){ a + skip2.a + c + skip4 + e + f + g + h + i + skip10.a + k };
}

FUNCTION static int odd_ones(struct bits skip1, struct none skip2, int c, struct nested skip4,
			     float e, union either skip6, int g, vector skip8, double i,
			     __int128 skip10, int k)
{
	(void)skip2;
	__asm__ volatile("");
	return (int)skip1.a + c + (int)skip4.a.a + (int)e + (int)skip6.a + g + skip8[0] + (int)i +
	       (int)skip10 + k;
}

/*
 * A pair that no longer fits goes to the stack whole; what is narrower still takes the last
 * register.
 */
FUNCTION static long last_register(int a, int b, int c, int d, int e, struct pair skip6, int g,
				   int h, struct four skip9, int j)
{
	__asm__ volatile("");
	return a + b + c + d + e + skip6.a + g + h + skip9.a + j;
}

FUNCTION static int complex_ones(_Complex float skip1, int b, _Complex double skip3, double d,
				 long double _Complex skip5, int f)
{
	__asm__ volatile("");
	return (int)skip1 + b + (int)skip3 + (int)d + (int)skip5 + f;
}

FUNCTION static int complex_integers(_Complex int skip1, int b, _Complex long skip3, int d,
				     _Complex char skip5, int f)
{
	__asm__ volatile("");
	return (int)skip1 + b + (int)skip3 + d + (int)skip5 + f;
}

/* Comes back in the x87's registers: no argument is the address of room for it. */
FUNCTION static _Complex long double complex_result(int a, float b)
{
	__asm__ volatile("");
	return (long double)a + (long double)b;
}

FUNCTION static int variadic(int a, double b, ...)
{
	__asm__ volatile("");
	return a + (int)b;
}

void sample_calls_c(sample_done *done)
{
	const struct floats four = { 4, 4, 4 }, five = { 5, 5, 5 };
	const struct pair six = { 6, 6 }, ten = { 10, 10 };
	const struct wide w = { 2 };

	CALL(integers, 1, 2, 3, 4, 5, 6, 7, 8);
	CALL(floating, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
	CALL(small, true, 2, (enum color)3, (enum sign)4, true, (void *)6);
	CALL(aggregates, (struct four){ 1 }, 2, (struct eight){ 3, 3 }, 4, five, 6,
	     (struct mixed){ 7, 7 }, 8, 9, ten, 11, 12);
	CALL(in_memory, 1, (struct big){ 2, 2, 2 }, 3, (struct packed){ 4, 4 }, 5, 6, 7, 8, 9, 10);
	CALL(wide, 1, w, 3, 4, 5, 6, 7, 8, 9, w, 11);
	CALL(odd_ones, (struct bits){ 1, 1 }, (struct none){}, 3, (struct nested){ four, { 0 } }, 5,
	     (union either){ 6 }, 7, (vector){ 8 }, 9, 10, 11);
	CALL(last_register, 1, 2, 3, 4, 5, six, 7, 8, (struct four){ 9 }, 10);
	CALL(complex_ones, 1, 2, 3, 4, 5, 6);
	CALL(complex_integers, 1, 2, 3, 4, 5, 6);
	CALL(complex_result, 1, 2);
	CALL(variadic, 1, 2, 3, 4);
}
