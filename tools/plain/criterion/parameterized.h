/* SPDX-License-Identifier: MIT */
/* Tests that are run once with each of several things. */
#ifndef PLAIN_CRITERION_PARAMETERIZED_H
#define PLAIN_CRITERION_PARAMETERIZED_H

#include "tools/plain/criterion/criterion.h"

#define ParameterizedTestParameters(in, called)                                                    \
	static struct plain_parameters in##_##called##_parameters(void)

#define cr_make_param_array(of, list, many, ...)                                                   \
	((struct plain_parameters){ .all = (char *)(list), .bytes = sizeof(of), .count = (many) })

#define ParameterizedTest(parameter, in, called, ...)                                              \
	static void in##_##called##_with(parameter);                                               \
	Test(in, called, __VA_ARGS__)                                                              \
	{                                                                                          \
		in##_##called##_with(plain_parameter);                                             \
	}                                                                                          \
	__attribute__((constructor)) static void in##_##called##_take(void)                        \
	{                                                                                          \
		in##_##called##_test.parameters = in##_##called##_parameters;                      \
	}                                                                                          \
	static void in##_##called##_with(parameter)

#endif
