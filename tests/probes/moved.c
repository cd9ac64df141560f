/* SPDX-License-Identifier: MIT */
/*
 * One program before and after its code moved: with OLD it has markers, else functions that have
 * their values.
 */
#ifdef OLD
#include <waymark/marker.h>
#else
#define WAYMARK(...)
#define WAYMARK_BEGIN(...)
#define WAYMARK_END(...)
#endif

int run_statement(int number, const char *sql);
__attribute__((noinline)) int run_statement(int number, const char *sql)
{
	WAYMARK(db, query, WM_FIELD(id, number), WM_FIELD(text, sql));
	__asm__ volatile("" : : "r"(number), "r"(sql) : "memory");
	return number + 1;
}

short fetch(unsigned int cursor, double share);
__attribute__((noinline)) short fetch(unsigned int cursor, double share)
{
	short rows;

	WAYMARK_BEGIN(db, fetch, cursor, share);
	__asm__ volatile("" : "+r"(cursor), "+x"(share));
	rows = (short)(cursor % 4 ? 100 * cursor : -1);
	WAYMARK_END(db, fetch, rows);
	return rows;
}

int main(void)
{
	static const char *const texts[] = { "UPDATE t", "", "a \"text\"\n", 0, "SELECT 1" };
	int sum = 0;

	for (int i = 0; i < 40; i++) {
		sum += run_statement(i - 5, texts[i % 5]);
		sum += fetch((unsigned int)i, i / 4.0);
	}
	return sum == 0;
}
