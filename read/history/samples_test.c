/* SPDX-License-Identifier: MIT */
#include "read/export/export.h"
#include "read/history/testing/sampled.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct trace_reader *reader;
static struct images images;
static struct samples samples;

static void begin(void)
{
	sampled_make();
}

static void close_all(void)
{
	samples_close(&samples);
	images_close(&images);
	trace_reader_close(reader);
}

static void end(void)
{
	close_all();
	sampled_remove();
}

TestSuite(samples, .init = begin, .fini = end);

static void open_all(const struct samples_options *options)
{
	cr_assert_eq(trace_reader_open(&reader, sampled_dir), 0);
	cr_assert_eq(images_open(&images, reader, NULL), 0);
	cr_assert_eq(samples_open(&samples, &images, options), 0);
}

static void open_and_read(const struct samples_options *options)
{
	open_all(options);
	cr_assert_eq(samples_read(&samples, NULL, NULL), 0);
}

/* "program;thread;outer;inner" of a stack, written from its end. */
static const char *stack_text(uint32_t number)
{
	static char line[4096];
	char *at = line + sizeof(line) - 1, text[FUNCTION_TEXT_BYTES];

	for (; number; number = samples.stacks.all[number].outer) {
		const struct stacks_one *one = &samples.stacks.all[number];
		const char *name = one->function ? function_text(one->function, text, sizeof(text))
						 : one->name;
		size_t bytes = strlen(name);

		if (*at)
			*--at = ';';
		at -= bytes;
		memcpy(at, name, bytes);
	}
	return at;
}

static const struct samples_sum *sum_of(const char *stack)
{
	for (size_t i = 0; i < samples.sum_count; i++)
		if (!strcmp(stack_text(samples.sums[i].stack), stack))
			return &samples.sums[i];
	for (size_t i = 0; i < samples.sum_count; i++)
		fprintf(stderr, "%s %zu\n", stack_text(samples.sums[i].stack),
			(size_t)samples.sums[i].count);
	cr_assert_fail("no stack %s", stack);
	return NULL;
}

Test(samples, stacks_have_functions_of_program_and_kernel)
{
	const struct samples_sum *sum;

	open_and_read(&(struct samples_options){ 0 });
	sum = sum_of("prog;worker;main;middle;leaf");
	cr_expect_eq(sum->count, 3);
	cr_expect_eq(sum->weight, 3000);
	/* a call is the last instruction of main: it returns to the first of `middle` */
	sum = sum_of("prog;worker;main;leaf");
	cr_expect_eq(sum->count, 1);
	/* interrupted at its first instruction, and not a caller */
	sum = sum_of("prog;worker;main;leaf;asm_exc;do_fault");
	cr_expect_eq(sum->count, 1);
	cr_expect_eq(sum->process, samples.kernel);
	cr_expect(function_is_kernel(samples.stacks.all[sum->stack].function));
}

Test(samples, addresses_without_a_name_are_numbers)
{
	open_and_read(&(struct samples_options){ 0 });
	cr_expect_eq(sum_of("prog;worker;0x7000")->count, 1);
	cr_expect_eq(sum_of("prog;worker;[kernel]")->count, 2);
	cr_expect_eq(sum_of("?;?;0x4000")->count, 1);
}

Test(samples, process_number_used_again_is_another_program)
{
	open_and_read(&(struct samples_options){ 0 });
	cr_expect_eq(sum_of("later;worker;in_later")->count, 1);
}

Test(samples, read_again_they_are_of_the_same_programs)
{
	open_and_read(&(struct samples_options){ 0 });
	cr_assert_eq(samples_read(&samples, NULL, NULL), 0);
	cr_expect_eq(sum_of("prog;worker;main;middle;leaf")->count, 6);
	cr_expect_eq(sum_of("later;worker;in_later")->count, 2);
}

Test(samples, events_are_counted_apart)
{
	open_and_read(&(struct samples_options){ 0 });
	cr_assert_eq(samples.event_count, 2);
	cr_expect_str_eq(samples.events[0].name, "sample:cpu-clock");
	cr_expect(samples.events[0].is_time && samples.events[0].has_stacks);
	cr_expect_eq(samples.events[0].count, 10);
	cr_expect_eq(samples.events[0].weight, 10000);
	cr_expect_eq(samples.events[0].cut, 1);
	cr_expect_str_eq(samples.events[1].name, "fault:page");
	cr_expect(!samples.events[1].is_time && !samples.events[1].has_stacks);
	cr_expect_eq(samples.events[1].count, 1);
	cr_expect_eq(samples.events[1].weight, 1);
}

Test(samples, only_what_is_wanted_is_read)
{
	open_and_read(&(struct samples_options){ .event = "cpu-*" });
	cr_expect_eq(samples.event_count, 1);
	close_all();
	open_and_read(&(struct samples_options){ .pid = 99 });
	cr_assert_eq(samples.event_count, 1);
	cr_expect_eq(samples.events[0].count, 1);
	close_all();
	open_and_read(&(struct samples_options){ .tid = 1 });
	cr_expect_eq(samples.event_count, 0);
}

static int count_up(const struct samples_one *one, void *data)
{
	uint64_t *last_ns = data;

	cr_expect_geq(one->ns, *last_ns);
	*last_ns = one->ns;
	return samples.sums[one->sum].weight >= 3000 ? 7 : 0;
}

Test(samples, callback_sees_each_in_order_and_may_end_it)
{
	uint64_t last_ns = 0;

	open_all(&(struct samples_options){ 0 });
	cr_expect_eq(samples_are_in(reader), 1);
	cr_expect_eq(samples_read(&samples, count_up, &last_ns), 7);
}

static char exported[8192];

static void export_by(int (*write)(struct export_samples *export), int is_counted)
{
	static struct out out;
	struct export_samples export = {
		.out = &out, .name = "trace", .samples = &samples, .is_counted = is_counted
	};
	FILE *file = tmpfile();
	size_t got;

	open_all(&(struct samples_options){ .event = "sample:cpu-clock" });
	out_init(&out, fileno(file));
	cr_assert_eq(write(&export), 0);
	cr_assert_eq(out_flush(&out), 0);
	rewind(file);
	got = fread(exported, 1, sizeof(exported) - 1, file);
	exported[got] = '\0';
	fclose(file);
}

Test(samples, folded_has_a_line_for_each_stack)
{
	export_by(export_samples_folded, 0);
	cr_expect_str_eq(exported,
			 "prog;worker;main;middle;leaf 3000\n"
			 "prog;worker;main;leaf 1000\n"
			 "prog;worker;main;leaf;asm_exc_[k];do_fault_[k] 1000\n"
			 "prog;worker;0x7000 1000\n"
			 "prog;worker;[kernel]_[k] 2000\n"
			 "?;?;0x4000 1000\n"
			 "later;worker;in_later 1000\n",
			 "%s", exported);
}

Test(samples, folded_counts_samples_where_asked_to)
{
	export_by(export_samples_folded, 1);
	cr_expect(strstr(exported, "prog;worker;main;middle;leaf 3\n"), "%s", exported);
}

Test(samples, speedscope_has_a_profile_for_each_thread)
{
	export_by(export_samples_speedscope, 0);
	cr_expect(strstr(exported, "\"frames\":[\n{\"name\":\"main\""), "%s", exported);
	cr_expect(strstr(exported,
			 "{\"type\":\"sampled\",\"name\":\"worker 10/11, sample:cpu-clock\","
			 "\"unit\":\"nanoseconds\",\"startValue\":0,\"samples\":"
			 "[[0,1,2],[0,2],[0,2,3,4],[5],[6]],"
			 "\"weights\":[3000,1000,1000,1000,2000],\"endValue\":8000}"),
		  "%s", exported);
	cr_expect(strstr(exported, "\"name\":\"? 99/99, sample:cpu-clock\""), "%s", exported);
}
