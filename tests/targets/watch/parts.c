/* SPDX-License-Identifier: MIT */
/* Stores to variables of many types, each a known number of times. */
#include <complex.h>
#include <stdbool.h>
#include <stdint.h>

volatile int never, once;
volatile int ext[4];
volatile struct __attribute__((packed)) {
	char c;
	long l;
	int i;
} pk __attribute__((aligned(8)));
volatile struct {
	short a, b;
	int c;
	long rest;
} members;
volatile struct {
	unsigned low : 3, high : 13;
	int c;
	long rest;
} bits;
volatile long double extended;
volatile double complex number;
volatile __int128 wide;
struct {
	char text[16];
} text;
volatile char *bytes = (volatile char *)text.text;
volatile struct {
	signed a : 3;
	unsigned b : 5;
	bool c : 1;
	long d : 33;
} fields;
volatile struct {
	struct {
		int x, y;
	} at[2];
	double size;
	char name[8];
} whole;
volatile union {
	uint8_t bytes[8];
	uint64_t all;
} part;
struct node {
	long value;
	struct node *next;
} first, *head = &first;

int main(void)
{
	once = 1;
	ext[1] = 4;
	ext[2] = 5;
	ext[1] = 4;
	__asm__("movq %1, %0" : "=m"(ext[2]) : "r"(0x300000002) : "memory");
	for (long i = -1; i < 2; i++)
		pk.l = i;
	pk.i = 7;
	pk.c = 'x';
	members.b = 3;
	__asm__("movq %1, %0" : "=m"(members.a) : "r"(0x900070006) : "memory");
	bits.high = 9;
	bits.low = 2;
	extended = 1.25L;
	extended = -3;
	number = 1.5 + 2.5 * I;
	wide = -1;
	__asm__("movq %1, %0" : "=m"(text) : "r"(0x6f77206f6c6c6568) : "memory");
	bytes[9] = 'l';
	bytes[0] = 'c';
	for (int i = -2; i <= 2; i++) {
		fields.a = i;
		fields.b = (unsigned)i;
		fields.c = i & 1;
		fields.d = i * 1000000000L;
	}
	whole.size = 1.5;
	whole.at[1].y = 7;
	whole.name[0] = 'n';
	__atomic_exchange_n(&part.all, 0x1111111111111111, __ATOMIC_SEQ_CST);
	part.bytes[2] = 5;
	part.bytes[1] = 6;
	head->value = 1;
	head->next = &first;
	return 0;
}
