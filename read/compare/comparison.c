/* SPDX-License-Identifier: MIT */
#include "read/compare/comparison.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define Z_99 2.5758293035489 /* of both tails together 1 % are beyond it */

/* ---- means, and how far they vary ---- */

struct estimate {
	double value, variance;
	double freedom; /* degrees of it that the variance has */
};

/*
 * The variance of the sum of x[], by the squares of the differences of neighbours; the larger one
 * of slices and of pairs of them, so that noise as long as a slice counts. It has two thirds of the
 * degrees of freedom that a variance of as many values has.
 */
static double neighbours_variance(const double x[SUMMARY_SLICES], double *freedom)
{
	double largest = -1;

	for (int width = 1; width <= 2; width++) {
		int count = SUMMARY_SLICES / width;
		double squares = 0, variance;

		for (int i = 0; i + 1 < count; i++) {
			double difference = 0;

			for (int j = 0; j < width; j++)
				difference += x[(i + 1) * width + j] - x[i * width + j];
			squares += difference * difference;
		}
		variance = squares / 2 / (count - 1) * count;
		if (variance > largest) {
			largest = variance;
			*freedom = (count - 1) * 2 / 3.0;
		}
	}
	return largest;
}

/* The squares of the distances from `mean`, of lengths or of their logarithms. */
static double histogram_squares(const struct histogram *times, double mean, int is_log)
{
	double squares = 0;

	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
		double value;

		if (!times->buckets[i])
			continue;
		value = (double)summary_bucket_middle(i);
		value = is_log ? log(value > 1 ? value : 1) : value;
		squares += (double)times->buckets[i] * (value - mean) * (value - mean);
	}
	return squares;
}

/* The mean of a span's lengths, in ns, or of their logarithms. It has two or more. */
static struct estimate span_mean(const struct summary_span *span, int is_log)
{
	double count = (double)span->times->count, sum = 0, variance, alone;
	double per_tick = 1e9 / (double)span->ticks_hz;
	double off[SUMMARY_SLICES], freedom;
	struct estimate mean;

	for (int i = 0; i < SUMMARY_SLICES; i++)
		sum += is_log ? span->slices[i].logs : span->slices[i].ticks;
	mean.value = sum / count;
	for (int i = 0; i < SUMMARY_SLICES; i++)
		off[i] = (is_log ? span->slices[i].logs : span->slices[i].ticks) -
			 mean.value * (double)span->slices[i].count;
	variance = neighbours_variance(off, &freedom);
	alone = histogram_squares(span->times, mean.value, is_log) * count / (count - 1);
	mean.variance = (variance > alone ? variance : alone) / count / count;
	mean.freedom = count - 1 < freedom ? count - 1 : freedom;
	if (is_log) {
		mean.value += log(per_tick);
	} else {
		mean.value *= per_tick;
		mean.variance *= per_tick * per_tick;
	}
	return mean;
}

/* The logarithm of an event's count. */
static struct estimate event_log(const struct summary_event *event)
{
	double count = (double)event->count, x[SUMMARY_SLICES], freedom, variance;

	for (int i = 0; i < SUMMARY_SLICES; i++)
		x[i] = (double)event->slices[i].count;
	variance = neighbours_variance(x, &freedom);
	/* that of independent events is their count (Poisson) */
	variance = variance > count ? variance : count;
	return (struct estimate){ log(count), variance / count / count, freedom };
}

/* ---- two of them ---- */

struct difference {
	double value, error; /* and its standard error */
	double freedom, p;
};

static struct difference estimates_compare(const struct estimate *before,
					   const struct estimate *after)
{
	double one = before->variance, other = after->variance, sum = one + other;
	struct difference difference = { .value = after->value - before->value,
					 .error = sqrt(sum) };
	double t, df;

	if (sum <= 0) { /* all calls took the same time */
		difference.freedom = before->freedom;
		difference.p = difference.value == 0 ? 1 : 0;
		return difference;
	}
	df = sum * sum / (one * one / before->freedom + other * other / after->freedom);
	t = difference.value / difference.error;
	difference.freedom = df;
	difference.p = erfc((8 * df + 1) / (8 * df + 3) * sqrt(df * log1p(t * t / df) / 2));
	return difference;
}

/* How many standard errors are beside the value with a confidence of 99 %. */
static double width_of(const struct difference *difference)
{
	double df = difference->freedom, z = Z_99 * (8 * df + 3) / (8 * df + 1);

	return sqrt(df * expm1(z * z / df));
}

/* Of logarithms. */
static void ratio_set(struct compared *row, const struct difference *difference)
{
	double beside = width_of(difference) * difference->error;

	row->ratio = exp(difference->value);
	row->low = exp(difference->value - beside);
	row->high = exp(difference->value + beside);
}

static int is_change(double ratio)
{
	return ratio > COMPARE_RATIO_MIN || ratio < 1 / COMPARE_RATIO_MIN;
}

/* ---- rows ---- */

static void span_judge(struct compared *row, double tests)
{
	struct estimate means[2], logs[2];
	struct difference mean, typical;
	double ratio;

	for (int i = 0; i < 2; i++) {
		if (row->spans[i]->times->count < COMPARE_CALLS_MIN) {
			row->change = COMPARED_FEW;
			return;
		}
		means[i] = span_mean(row->spans[i], 0);
		logs[i] = span_mean(row->spans[i], 1);
	}
	mean = estimates_compare(&means[0], &means[1]);
	typical = estimates_compare(&logs[0], &logs[1]);
	ratio_set(row, &typical);
	row->p = typical.p;
	row->added = mean.value * (double)row->spans[1]->times->count;
	ratio = means[1].value / means[0].value;
	if (typical.p * tests < COMPARE_P_MAX && is_change(row->ratio)) {
		row->change = row->ratio > 1 ? COMPARED_MORE : COMPARED_LESS;
	} else if (mean.p * tests < COMPARE_P_MAX && is_change(ratio)) {
		row->change = ratio > 1 ? COMPARED_MORE_AT_TIMES : COMPARED_LESS_AT_TIMES;
		row->p = mean.p;
	}
}

/*
 * The rate, or where it changed less the count: `by_rate` where counts say nothing, as those of a
 * flight recorder.
 */
static double event_value(const struct compared *row, int by_rate)
{
	const struct summary_event *before = row->events[0], *after = row->events[1];
	double rate = log(after->per_second / before->per_second);
	double count = log((double)after->count / (double)before->count);

	if (by_rate || !isfinite(rate))
		return isfinite(rate) ? rate : count;
	if ((rate > 0) != (count > 0))
		return 0;
	return fabs(rate) < fabs(count) ? rate : count;
}

static void event_judge(struct compared *row, double tests, int by_rate)
{
	const struct summary_event *before = row->events[0], *after = row->events[1];
	struct estimate logs[2] = { event_log(before), event_log(after) };
	struct difference difference;

	if (before->count < COMPARE_CALLS_MIN && after->count < COMPARE_CALLS_MIN) {
		row->change = COMPARED_FEW;
		return;
	}
	logs[1].value = logs[0].value + event_value(row, by_rate);
	difference = estimates_compare(&logs[0], &logs[1]);
	ratio_set(row, &difference);
	row->p = difference.p;
	row->added = after->per_second - before->per_second;
	if (difference.p * tests < COMPARE_P_MAX && is_change(row->ratio))
		row->change = row->ratio > 1 ? COMPARED_MORE : COMPARED_LESS;
}

/* Of one that a trace lacks. */
static void alone_judge(struct compared *row, uint64_t count, double added, int is_new)
{
	if (count < COMPARE_CALLS_MIN) {
		row->change = COMPARED_FEW;
		return;
	}
	row->change = is_new ? COMPARED_NEW : COMPARED_GONE;
	row->added = is_new ? added : -added;
}

static double span_total_ns(const struct summary_span *span)
{
	double ticks = 0;

	for (int i = 0; i < SUMMARY_SLICES; i++)
		ticks += span->slices[i].ticks;
	return ticks * 1e9 / (double)span->ticks_hz;
}

/* ---- what both traces have of a name ---- */

/* A name of a side. */
struct entry {
	const char *name;
	const struct summary_span *span; /* or the event */
	const struct summary_event *event;
	int side;
	uint32_t same; /* so many of the side's names are the same and before it */
};

static int by_name(const void *left, const void *right)
{
	const struct entry *a = left, *b = right;
	int order = strcmp(a->name, b->name);

	order = order ? order : (a->same > b->same) - (a->same < b->same);
	return order ? order : a->side - b->side;
}

/*
 * The recorder's own, which come with others, are not; nor is an end, which has a begin; nor rows
 * of sums.
 */
static int is_compared(const struct summary_event *event)
{
	return event->count && event->kind != 'e' && event->kind != 's' &&
	       strncmp(event->name, "task:", 5) != 0 && strncmp(event->name, "count:", 6) != 0;
}

static size_t entries_fill(struct entry *entries, const struct summary *summary, int side,
			   int is_event)
{
	size_t count = 0;

	for (uint32_t i = 0; i < summary->span_count && !is_event; i++)
		if (summary->spans[i].times->count)
			entries[count++] = (struct entry){ .name = summary->spans[i].name,
							   .span = &summary->spans[i],
							   .side = side };
	for (uint32_t i = 0; i < summary->event_count && is_event; i++)
		if (is_compared(&summary->events[i]))
			entries[count++] = (struct entry){ .name = summary->events[i].name,
							   .event = &summary->events[i],
							   .side = side };
	/* spans of two clocks have one name, as have a process's and the kernel's event */
	if (count)
		qsort(entries, count, sizeof(*entries), by_name);
	for (size_t i = 1; i < count; i++)
		if (!strcmp(entries[i].name, entries[i - 1].name))
			entries[i].same = entries[i - 1].same + 1;
	return count;
}

/* A row for each name of the spans, or of the events. 0 or -ENOMEM. */
static int rows_make(struct compared **rows, size_t *row_count, const struct summary *before,
		     const struct summary *after, int is_event)
{
	size_t room = is_event ? before->event_count + after->event_count
			       : before->span_count + after->span_count;
	struct entry *entries = calloc(room + 1, sizeof(*entries));
	size_t count;

	*rows = calloc(room + 1, sizeof(**rows));
	if (!*rows || !entries) {
		free(entries);
		return -ENOMEM;
	}
	count = entries_fill(entries, before, 0, is_event);
	count += entries_fill(entries + count, after, 1, is_event);
	if (count)
		qsort(entries, count, sizeof(*entries), by_name);
	for (size_t i = 0; i < count; i++) {
		const struct entry *entry = &entries[i];
		int is_other = i && !strcmp(entry->name, entry[-1].name) &&
			       entry->same == entry[-1].same;
		struct compared *row = &(*rows)[is_other ? *row_count - 1 : (*row_count)++];

		row->name = entry->name;
		row->spans[entry->side] = entry->span;
		row->events[entry->side] = entry->event;
	}
	free(entries);
	return 0;
}

/* What changed, then what did not, then what has too few. */
static int class_of(const struct compared *row)
{
	return row->change == COMPARED_SAME ? 1 : row->change == COMPARED_FEW ? 2 : 0;
}

static int by_added(const void *left, const void *right)
{
	const struct compared *a = left, *b = right;
	double one = fabs(a->added), other = fabs(b->added);

	if (class_of(a) != class_of(b))
		return class_of(a) - class_of(b);
	if (one != other)
		return one > other ? -1 : 1;
	return strcmp(a->name, b->name);
}

static int has_both(const struct compared *row)
{
	return (row->spans[0] && row->spans[1]) || (row->events[0] && row->events[1]);
}

static void row_judge(struct compared *row, double tests, int by_rate)
{
	int is_new = row->spans[1] || row->events[1];
	const struct summary_span *span = row->spans[is_new];

	if (!has_both(row) && span)
		alone_judge(row, span->times->count, span_total_ns(span), is_new);
	else if (!has_both(row))
		alone_judge(row, row->events[is_new]->count, row->events[is_new]->per_second,
			    is_new);
	else if (span)
		span_judge(row, tests);
	else
		event_judge(row, tests, by_rate);
}

/* Judge and sort them. How many changed. */
static size_t rows_judge(struct compared *rows, size_t count, double tests, int by_rate)
{
	size_t changed = 0;

	for (size_t i = 0; i < count; i++) {
		row_judge(&rows[i], tests, by_rate);
		changed += !class_of(&rows[i]);
	}
	if (count)
		qsort(rows, count, sizeof(*rows), by_added);
	return changed;
}

int comparison_make(struct comparison *comparison, const struct summary *before,
		    const struct summary *after)
{
	int by_rate = before->is_cyclic || after->is_cyclic, err;
	double tests = 0;

	*comparison = (struct comparison){ 0 };
	err = rows_make(&comparison->spans, &comparison->span_count, before, after, 0);
	if (!err)
		err = rows_make(&comparison->events, &comparison->event_count, before, after, 1);
	if (err)
		return err;
	for (size_t i = 0; i < comparison->span_count; i++)
		tests += 2 * has_both(&comparison->spans[i]);
	for (size_t i = 0; i < comparison->event_count; i++)
		tests += has_both(&comparison->events[i]);
	comparison->spans_changed = rows_judge(comparison->spans, comparison->span_count, tests,
					       by_rate);
	comparison->events_changed = rows_judge(comparison->events, comparison->event_count, tests,
						by_rate);
	return 0;
}

void comparison_release(struct comparison *comparison)
{
	free(comparison->spans);
	free(comparison->events);
	*comparison = (struct comparison){ 0 };
}
