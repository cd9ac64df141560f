/* SPDX-License-Identifier: MIT */
/* What the build made of the system's headers is what the compiler makes of them. */
#include "target/code/prototype.h"

#include "target/code/prototype_headers.h"

#include <criterion/criterion.h>
#include <link.h>
#include <string.h>
#include <waymark/marker.h>

static struct code_file *file;
static struct code_parameters parameters;

/* The path of this process's libc. */
static int find_libc(struct dl_phdr_info *info, size_t bytes, void *data)
{
	(void)bytes;
	*(const char **)data = info->dlpi_name;
	return strstr(info->dlpi_name, "/libc.so.6") != NULL;
}

static void read_function(const char *name)
{
	const char *path = NULL;

	cr_assert(dl_iterate_phdr(find_libc, &path));
	if (!file)
		cr_assert_eq(code_file_open(&file, path), 0);
	cr_assert_eq(code_prototype_read(&parameters, file, name), 1, "%s", name);
}

/* Of a type, as in a row; of void 'v'. */
#define LETTER(type)                                                                               \
	_Generic((__typeof__(type) *)0,                                                            \
		char **: 'p',                                                                      \
		void **: 'p',                                                                      \
		FILE **: 'p',                                                                      \
		const char **: 's',                                                                \
		const void **: 'p',                                                                \
		const int **: 'p',                                                                 \
		const struct sockaddr **: 'p',                                                     \
		const sigset_t **: 'p',                                                            \
		sigset_t **: 'p',                                                                  \
		pthread_mutex_t **: 'p',                                                           \
		int *: 'i',                                                                        \
		unsigned int *: 'I',                                                               \
		long *: 'l',                                                                       \
		unsigned long *: 'L',                                                              \
		unsigned short *: 'H',                                                             \
		double *: 'd',                                                                     \
		float *: 'f',                                                                      \
		void *: 'v')

/* The row's types are the compiler's; the expression is a call of the function. */
#define RESULT(function, ...)                                                                      \
	cr_expect_eq(strchr(code_prototype_row(#function), ' ')[1], LETTER(function(__VA_ARGS__)), \
		     "%s", code_prototype_row(#function))

Test(prototype, row_has_types_of_compiler)
{
	RESULT(open, "", 0);
	RESULT(malloc, 0);
	RESULT(read, 0, NULL, 0);
	RESULT(lseek, 0, 0, 0);
	RESULT(strlen, "");
	RESULT(sqrt, 0.0);
	RESULT(sqrtf, 0.0f);
	RESULT(free, NULL);
	RESULT(fopen, "", "");
	RESULT(getuid);
	RESULT(htons, 0);
	RESULT(strerrorname_np, 0);
	RESULT(mmap, NULL, 0, 0, 0, 0, 0);
}

Test(prototype, row_has_names_sets_and_errors)
{
	static const char *const rows[] = {
		"open i- file:s oflag:i=open",
		"openat i- fd:i=dirfd file:s oflag:i=open",
		"mmap p- addr:p len:L prot:i=prot flags:i=map fd:i offset:l",
		"socket i- domain:i=domain type:i=socket protocol:i",
		"connect i- fd:i addr:p len:I",
		"pipe2 i- pipedes:p flags:i=open",
		"qsort v base:p nmemb:L size:L compar:p",
		"execv i- path:s argv:p",
		"malloc p size:L",
		"free v ptr:p",
		"opendir p0 name:s",
		"pow d x:d y:d",
		"ldexp d x:d exponent:i",
		"pthread_mutex_lock i=errno mutex:p",
		"strncmp i s1:p s2:p n:L",
		"chmod i- file:s mode:I=mode",
		"printf i format:s",
		"signal p sig:i=signal handler:p",
		"getrlimit i- resource:I=rlimit rlimits:p",
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char name[64] = "";
		const char *row;

		memcpy(name, rows[i], strcspn(rows[i], " "));
		row = code_prototype_row(name);
		cr_expect_str_eq(row ? row : "", rows[i]);
	}
	/* no function, one with a structure as a parameter, one with a long double */
	cr_expect_null(code_prototype_row("ope"));
	cr_expect_null(code_prototype_row("inet_ntoa"));
	cr_expect_null(code_prototype_row("sqrtl"));
}

Test(prototype, read_places_parameters_in_registers)
{
	read_function("open");
	cr_assert_eq(parameters.values.count, 2);
	cr_assert_str_eq(parameters.values.all[0].name, "file");
	cr_assert_eq(parameters.values.all[0].type, WM_TYPE_STR);
	cr_assert_eq(parameters.values.all[0].from.reg, 5);
	cr_assert_eq(parameters.values.all[1].type, WM_TYPE_I32);
	cr_assert_eq(parameters.values.all[1].from.reg, 4);
	cr_assert_eq(parameters.values.all[1].from.bytes, 4);
	cr_assert_str_eq(enumeration_name(parameters.values.all[1].names, O_CREAT), "O_CREAT");
	cr_assert_eq(parameters.return_count, 2);
	cr_assert_str_eq(parameters.returns[0].name, "ret");
	cr_assert_str_eq(parameters.returns[1].name, "errno");
	cr_assert_eq(parameters.returns[1].from.reg, ERRNO_OF_INT);
	cr_assert_str_eq(enumeration_name(parameters.returns[1].names, EAGAIN), "EAGAIN");
	read_function("lseek");
	cr_assert_eq(parameters.returns[1].from.reg, ERRNO_OF_LONG);
	read_function("opendir");
	cr_assert_eq(parameters.returns[1].from.reg, ERRNO_OF_NULL);
	read_function("free");
	cr_assert_eq(parameters.return_count, 0);
	read_function("ldexp");
	cr_assert_eq(parameters.values.all[0].from.kind, OPERAND_VECTOR);
	cr_assert_eq(parameters.values.all[1].from.reg, 5);
	cr_assert_eq(parameters.returns[0].from.kind, OPERAND_VECTOR);
	code_file_close(file);
}

Test(prototype, read_of_other_file_returns_0)
{
	cr_assert_eq(code_file_open(&file, "/proc/self/exe"), 0);
	cr_assert_eq(code_prototype_read(&parameters, file, "open"), 0);
	code_file_close(file);
}
