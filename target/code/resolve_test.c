/* SPDX-License-Identifier: MIT */
#include "target/code/resolve.h"
#include "record/spec/spec.h"

#include "target/code/testing/sample_module.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/marker.h>

#define FOUND_MAX 64

static struct code_module module;
static struct spec spec;
static struct code_request request;
static struct code_place places[FOUND_MAX];
static struct {
	char subsystem[64], event[256], detail[128];
	int err;
} found[FOUND_MAX];
static int count;

static void open_sample(void)
{
	struct code_file *file;

	cr_assert_eq(code_file_open(&file, SAMPLE_MODULE), 0);
	code_module_init(&module, file, 0);
}

static void close_sample(void)
{
	code_request_release(&request);
	code_module_release(&module);
}

static int take(const struct code_place *place, int err, const char *detail, void *data)
{
	(void)data;
	if (count < FOUND_MAX) {
		places[count] = *place;
		snprintf(found[count].subsystem, sizeof(found[0].subsystem), "%s",
			 place->subsystem);
		snprintf(found[count].event, sizeof(found[0].event), "%s", place->event);
		snprintf(found[count].detail, sizeof(found[0].detail), "%s", detail);
		found[count].err = err;
	}
	count++;
	return 0;
}

static int resolve_in(const char *text, const struct code_process *process)
{
	int ret;

	count = 0;
	code_request_release(&request);
	cr_assert_eq(spec_read(&spec, text, (struct detail){ 0 }), 0, "%s", text);
	request = *spec.request;
	*spec.request = (struct code_request){ 0 };
	spec_release(&spec);
	ret = code_resolve(&request, &module, process, take, NULL);
	cr_assert(ret < 0 || ret == count);
	return ret;
}

static int resolve(const char *text)
{
	return resolve_in(text, NULL);
}

Test(resolve, a_function, .init = open_sample, .fini = close_sample)
{
	cr_assert_eq(resolve("func:sample_global/ret/"), 1);
	cr_assert_str_eq(found[0].subsystem, "sample_module");
	cr_assert_str_eq(found[0].event, "sample_global");
	cr_assert_eq(places[0].kind, PLACE_FUNCTION);
	cr_assert(places[0].is_entry);
	cr_assert_eq(places[0].function, places[0].address);
	cr_assert_gt(places[0].function_bytes, 0);
	cr_assert(places[0].wants_return);
	cr_assert_eq(code_place_returns(&places[0])->type, WM_TYPE_I32);
	cr_assert_eq(places[0].field_count, 2);
	cr_assert_str_eq(places[0].fields[1].name, "b");
	cr_assert_eq(places[0].fields[1].type, WM_TYPE_PTR);
	cr_assert_gt(places[0].line, 0);
}

Test(resolve, a_function_s_fields, .init = open_sample, .fini = close_sample)
{
	cr_assert_eq(resolve("func:sample_global/b:str,arg1:u8,rdx,ret:u8/"), 1);
	cr_assert_eq(found[0].err, 0);
	cr_assert_eq(places[0].field_count, 3);
	cr_assert_eq(places[0].fields[0].type, WM_TYPE_STR);
	cr_assert_eq(places[0].fields[1].from.bytes, 1);
	cr_assert_eq(code_place_returns(&places[0])->type, WM_TYPE_U8);
	cr_assert_eq(resolve("func:sample_global/arg3/"), 1);
	cr_assert_eq(found[0].err, -WM_E_NO_PARAMETER);
	cr_assert_str_eq(found[0].detail, "arg3");
	cr_assert_eq(resolve("func:sample_global/a:str/"), 1);
	cr_assert_eq(found[0].err, -WM_E_FIELD_TYPE);
	cr_assert_eq(resolve("func:sample_global/ret:str/"), 1);
	cr_assert_eq(found[0].err, -WM_E_FIELD_TYPE);
	cr_assert_str_eq(found[0].detail, "ret");
}

Test(resolve, one_name_of_several_functions, .init = open_sample, .fini = close_sample)
{
	cr_assert_eq(resolve("func:same"), 2);
	cr_assert_str_eq(found[0].event, "same@sample_module.c");
	cr_assert_str_eq(found[1].event, "same@sample_module_twin.c");
	cr_assert_eq(resolve("func:shop::Order::add"), 2);
	cr_assert_str_eq(found[0].event, "shop::Order::add(int)");
	cr_assert_str_eq(found[1].event, "shop::Order::add(double)");
	cr_assert_eq(resolve("func:shop::Order::add(int)"), 1);
	cr_assert_str_eq(found[0].event, "shop::Order::add");
}

Test(resolve, all_events_of_a_glob_have_names_of_their_own, .init = open_sample,
     .fini = close_sample)
{
	cr_assert_gt(resolve("func:*"), 10);
	cr_assert_leq(count, FOUND_MAX);
	for (int i = 0; i < count; i++)
		for (int k = 0; k < i; k++)
			cr_assert_str_neq(found[i].event, found[k].event);
}

Test(resolve, what_is_not_there, .init = open_sample, .fini = close_sample)
{
	cr_assert_eq(resolve("func:nothing_like_it"), -WM_E_NO_FUNCTION);
	cr_assert_eq(resolve("usdt:shop:nothing"), -WM_E_NO_USDT);
	cr_assert_eq(resolve("addr:nothing.c:1"), -WM_E_NO_DEBUG);
	cr_assert_eq(resolve("addr:sample_module.c:1"), 1);
	cr_assert_eq(found[0].err, -WM_E_NO_LINE);
	cr_assert_neq(strstr(found[0].detail, "the next that has code is "), NULL);
	cr_assert_eq(resolve("addr:x+0x7fffffff"), 1);
	cr_assert_eq(found[0].err, -WM_E_NOT_CODE);
	module.file->is_vdso = 1;
	cr_assert_eq(resolve("func:sample_global"), -WM_E_KERNEL_CODE);
}

Test(resolve, usdt_probes, .init = open_sample, .fini = close_sample)
{
	cr_assert_eq(resolve("usdt:shop:order"), 2);
	cr_assert_eq(found[0].err, 0);
	cr_assert_eq(places[0].field_count, 3);
	cr_assert_neq(places[0].semaphore, 0);
	cr_assert_neq(places[0].function, 0);
	cr_assert_not(places[0].is_entry);
	cr_assert_eq(resolve("usdt:s*:*"), 6);
	cr_assert_eq(resolve("usdt:store:strange"), 1);
	cr_assert_eq(found[0].err, -WM_E_OPERAND);
	cr_assert_str_eq(found[0].detail, "arg2 is 8@%fs:sample_tls@tpoff");
	cr_assert_eq(resolve("usdt:store:strange/arg1:str/"), 1);
	cr_assert_eq(found[0].err, 0);
	cr_assert_eq(resolve("usdt:shop:bare/arg1/"), 1);
	cr_assert_eq(found[0].err, -WM_E_NO_PARAMETER);
}

Test(resolve, an_address, .init = open_sample, .fini = close_sample)
{
	char text[64];

	cr_assert_eq(resolve("func:sample_global"), 1);
	snprintf(text, sizeof(text), "addr:sample_module+0x%llx/rdi,arg2:str/",
		 (unsigned long long)places[0].address + 1);
	cr_assert_eq(resolve(text), 1);
	cr_assert_eq(found[0].err, 0);
	cr_assert_eq(places[0].function + 1, places[0].address);
	cr_assert_eq(places[0].field_count, 2);
	cr_assert_not(places[0].is_entry);
}

static int read_self(void *data, uint64_t address, void *buffer, size_t bytes)
{
	(void)data;
	memcpy(buffer, (const void *)(uintptr_t)address, bytes);
	return 0;
}

static int find_base(struct dl_phdr_info *info, size_t bytes, void *data)
{
	(void)bytes;
	if (!strstr(info->dlpi_name, "sample_module"))
		return 0;
	*(uint64_t *)data = info->dlpi_addr;
	return 1;
}

Test(resolve, a_function_that_is_chosen_at_the_start, .init = open_sample, .fini = close_sample)
{
	struct code_module *const modules[] = { &module };
	const struct code_process process = { .memory = { .read = read_self },
					      .modules = modules,
					      .module_count = 1 };

	cr_assert_eq(resolve("func:sample_chosen"), 1);
	cr_assert_eq(found[0].err, -WM_E_CHOSEN_AT_START);
	cr_assert_eq(sample_calls_chosen(2), 26);
	dl_iterate_phdr(find_base, &module.base);
	cr_assert_eq(resolve_in("func:sample_chosen/ret/", &process), 1);
	cr_assert_eq(found[0].err, 0);
	cr_assert_str_eq(found[0].event, "sample_chosen");
	cr_assert_eq(module.base + places[0].address, (uint64_t)(uintptr_t)sample_fast());
}
