/* SPDX-License-Identifier: MIT */
/*
 * A module for the tests of code/ to read; parts of it are called. See also its .S and
 * sample_module_twin.c.
 */
#include "target/code/testing/sample_module.h"

#define NAMED(name) __asm__(name) __attribute__((noinline, used))

int sample_global(int a, const char *b)
{
	return a + b[0];
}

int sample_alias(int a, const char *b) __attribute__((alias("sample_global")));

__attribute__((noinline)) static int same(int a)
{
	__asm__ volatile("" : "+r"(a));
	return a + 1;
}

int sample_calls_same(int a)
{
	return same(a) + sample_other_same(a);
}

/* Copies and parts of functions, under the names that compilers give them. */
static int copied(int a) NAMED("sample_copied.constprop.0");
static int copied(int a)
{
	return a * 3;
}

static int piece(int a) NAMED("sample_global.cold");
static int piece(int a)
{
	return a * 5;
}

int cxx_int(int a) NAMED("_ZN4shop5Order3addEi");
int cxx_int(int a)
{
	return copied(a);
}

int cxx_double(double a) NAMED("_ZN4shop5Order3addEd");
int cxx_double(double a)
{
	return piece((int)a);
}

int cxx_call(int a) NAMED("_ZN4shop5OrderclEi");
int cxx_call(int a)
{
	return a * 17;
}

int cxx_hidden(int a) NAMED("_ZN4shop12_GLOBAL__N_16hiddenEi");
int cxx_hidden(int a)
{
	return a * 19;
}

int cxx_lambda(int a) NAMED("_ZZ4mainENKUliE_clEi");
int cxx_lambda(int a)
{
	return a * 23;
}

/* A template, a tag of an ABI, operators: as their names go. */
#define CXX_NAMED(function, name, factor)                                                          \
	int function(int a) NAMED(name);                                                           \
	int function(int a)                                                                        \
	{                                                                                          \
		return a * (factor);                                                               \
	}

CXX_NAMED(cxx_twice, "_Z5twiceIlET_S0_", 31)
CXX_NAMED(cxx_tagged, "_Z6taggedB5cxx11i", 37)
CXX_NAMED(cxx_times, "_ZN3BoxIiEmlEi", 41)
CXX_NAMED(cxx_times_by, "_ZN3BoxIiEmLEi", 43)
CXX_NAMED(cxx_index, "_ZNK3BoxIiEixEi", 47)
CXX_NAMED(cxx_convert, "_ZNK3BoxIiEcviEv", 53)
CXX_NAMED(cxx_pointers, "_Z3ptrPcPFiiE", 59)
CXX_NAMED(cxx_letter, "_Z3ptrc", 61)

int rust(int a) NAMED("_ZN5mybox4open17h0123456789abcdefE");
int rust(int a)
{
	return a * 7;
}

int rust_v0(int a) NAMED("_RNvC7mycrate3run");
int rust_v0(int a)
{
	return a * 11;
}

/* Chosen when the program starts, and called, so that it is bound. */
__attribute__((noinline)) static int fast(int a)
{
	__asm__ volatile("" : "+r"(a));
	return a * 13;
}

__attribute__((used)) static int (*choose(void))(int)
{
	return fast;
}

int sample_chosen(int a) __attribute__((ifunc("choose")));

int sample_calls_chosen(int a)
{
	return sample_chosen(a); /* line of sample_calls_chosen */
}

const void *sample_fast(void)
{
	return (const void *)fast;
}

void sample_two_statements(volatile int *to)
{
	/* clang-format off */
	to[0] = 1; to[1] = 2; /* line of sample_two_statements */
	/* clang-format on */
}
