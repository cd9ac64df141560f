/* SPDX-License-Identifier: MIT */
/*
 * The part of Criterion that our tests use, done plainly: each test in a forked child. It replaces
 * Criterion under ThreadSanitizer, whose memory layout leaves no room for Criterion's arena.
 */
#ifndef PLAIN_CRITERION_H
#define PLAIN_CRITERION_H

/* What Criterion brings along. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct plain_options {
	void (*init)(void);
	void (*fini)(void);
	int signal;
	int exit_code;
	double timeout;
	int disabled;
	const char *description;
};

/* What a test is run with, once each. */
struct plain_parameters {
	char *all;
	size_t bytes; /* of one */
	size_t count;
};

struct plain_test {
	const char *suite, *name;
	void (*run)(void);
	struct plain_parameters (*parameters)(void); /* NULL: it takes none */
	struct plain_options options;
	struct plain_test *next;
};

extern void *plain_parameter; /* of the test that runs */

void plain_register(struct plain_test *test);
void plain_register_suite(const char *suite, struct plain_options options);
__attribute__((noreturn, format(printf, 4, 5))) void
plain_fail(const char *file, int line, const char *text, const char *format, ...);
__attribute__((noreturn, format(printf, 1, 2))) void plain_skip(const char *format, ...);
__attribute__((format(printf, 1, 2))) void plain_log(const char *format, ...);

#define Test(in, called, ...)                                                                      \
	static void in##_##called##_run(void);                                                     \
	static struct plain_test in##_##called##_test = { .suite = #in,                            \
							  .name = #called,                         \
							  .run = in##_##called##_run,              \
							  .options = { __VA_ARGS__ } };            \
	__attribute__((constructor)) static void in##_##called##_register(void)                    \
	{                                                                                          \
		plain_register(&in##_##called##_test);                                             \
	}                                                                                          \
	static void in##_##called##_run(void)

#define TestSuite(in, ...)                                                                         \
	__attribute__((constructor)) static void in##_register(void)                               \
	{                                                                                          \
		plain_register_suite(#in, (struct plain_options){ __VA_ARGS__ });                  \
	}                                                                                          \
	_Static_assert(1, "takes the semicolon")

#define PLAIN_CHECK(cond, text, ...)                                                               \
	((cond) ? (void)0 : plain_fail(__FILE__, __LINE__, text, "\n  " __VA_ARGS__))

#define cr_assert(cond, ...) PLAIN_CHECK(cond, #cond, __VA_ARGS__)
#define cr_assert_not(cond, ...) PLAIN_CHECK(!(cond), "not " #cond, __VA_ARGS__)
#define cr_assert_eq(a, b, ...) PLAIN_CHECK((a) == (b), #a " == " #b, __VA_ARGS__)
#define cr_assert_neq(a, b, ...) PLAIN_CHECK((a) != (b), #a " != " #b, __VA_ARGS__)
#define cr_assert_lt(a, b, ...) PLAIN_CHECK((a) < (b), #a " < " #b, __VA_ARGS__)
#define cr_assert_leq(a, b, ...) PLAIN_CHECK((a) <= (b), #a " <= " #b, __VA_ARGS__)
#define cr_assert_gt(a, b, ...) PLAIN_CHECK((a) > (b), #a " > " #b, __VA_ARGS__)
#define cr_assert_geq(a, b, ...) PLAIN_CHECK((a) >= (b), #a " >= " #b, __VA_ARGS__)
#define cr_assert_null(a, ...) PLAIN_CHECK(!(a), #a " is null", __VA_ARGS__)
#define cr_assert_not_null(a, ...) PLAIN_CHECK(a, #a " is not null", __VA_ARGS__)
#define cr_assert_str_eq(a, b, ...)                                                                \
	PLAIN_CHECK(strcmp((a), (b)) == 0, #a " is the string " #b, __VA_ARGS__)
#define cr_assert_str_neq(a, b, ...)                                                               \
	PLAIN_CHECK(strcmp((a), (b)) != 0, #a " is not the string " #b, __VA_ARGS__)
#define cr_assert_str_empty(a, ...) PLAIN_CHECK(!*(a), #a " is empty", __VA_ARGS__)
#define cr_assert_arr_eq(a, b, bytes, ...)                                                         \
	PLAIN_CHECK(memcmp((a), (b), (bytes)) == 0, #a " holds " #b, __VA_ARGS__)
#define cr_assert_arr_neq(a, b, bytes, ...)                                                        \
	PLAIN_CHECK(memcmp((a), (b), (bytes)) != 0, #a " doesn't hold " #b, __VA_ARGS__)
#define cr_assert_float_eq(a, b, by, ...)                                                          \
	PLAIN_CHECK((a) - (b) <= (by) && (b) - (a) <= (by), #a " is about " #b, __VA_ARGS__)
#define cr_assert_fail(...) PLAIN_CHECK(0, "failed", __VA_ARGS__)
#define cr_fatal(...) PLAIN_CHECK(0, "failed", __VA_ARGS__)

#define cr_expect cr_assert
#define cr_expect_not cr_assert_not
#define cr_expect_eq cr_assert_eq
#define cr_expect_neq cr_assert_neq
#define cr_expect_lt cr_assert_lt
#define cr_expect_leq cr_assert_leq
#define cr_expect_gt cr_assert_gt
#define cr_expect_geq cr_assert_geq
#define cr_expect_null cr_assert_null
#define cr_expect_not_null cr_assert_not_null
#define cr_expect_str_eq cr_assert_str_eq
#define cr_expect_str_empty cr_assert_str_empty
#define cr_expect_arr_eq cr_assert_arr_eq

#define cr_skip_test(...) plain_skip("" __VA_ARGS__)
#define cr_skip(...) plain_skip("" __VA_ARGS__)
#define cr_log_info(...) plain_log(__VA_ARGS__)
#define cr_log_warn(...) plain_log(__VA_ARGS__)
#define cr_log_error(...) plain_log(__VA_ARGS__)

#endif
