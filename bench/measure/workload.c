/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Access sequences. Contract: bench/measure/workload.h. */
#include "bench/measure/workload.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lodic/lodic.h"

#define UNITS_PER_BLOCK (LODIC_BLOCK_BYTES / WORKLOAD_UNIT_BYTES)

static const char *const access_names[NR_ACCESSES] = { "hot", "random", "zipf" };

const char *workload_access_name(enum access access)
{
	return access_names[access];
}

int workload_access_parse(const char *name, enum access *ret_access)
{
	for (int i = 0; i < NR_ACCESSES; i++) {
		if (strcmp(name, access_names[i]) != 0)
			continue;
		*ret_access = (enum access)i;
		return 0;
	}
	return -EINVAL;
}

/* A Weyl sequence, mixed: two rounds of xor-shift and multiply with odd constants. */
uint64_t workload_random(uint64_t *state)
{
	uint64_t v = *state += UINT64_C(0x9e3779b97f4a7c15);

	v = (v ^ (v >> 32)) * UINT64_C(0xd6e8feb86659fd93);
	v = (v ^ (v >> 32)) * UINT64_C(0xd6e8feb86659fd93);
	return v ^ (v >> 32);
}

uint64_t workload_random_below(uint64_t *state, uint64_t n)
{
	return (uint64_t)(((unsigned __int128)workload_random(state) * n) >> 64);
}

static double workload_random_unit(uint64_t *state)
{
	return (double)(workload_random(state) >> 11) * 0x1p-53;
}

static uint32_t workload_unit_of(uint64_t block, uint64_t *state)
{
	return (uint32_t)(block * UNITS_PER_BLOCK +
	                  workload_random_below(state, UNITS_PER_BLOCK));
}

/* Gives the items their ranks. */
static void workload_shuffle(uint32_t *items, uint64_t n, uint64_t *state)
{
	for (uint64_t i = 0; i < n; i++)
		items[i] = (uint32_t)i;
	for (uint64_t i = n - 1; i > 0; i--) {
		uint64_t j = workload_random_below(state, i + 1);
		uint32_t t = items[i];

		items[i] = items[j];
		items[j] = t;
	}
}

int workload_zipf_make(struct workload_zipf *z, uint64_t n, double skew,
                       uint64_t *state)
{
	double sum = 0;

	*z = (struct workload_zipf){ .n = n };
	z->cumulated = malloc(n * sizeof(*z->cumulated));
	z->items = malloc(n * sizeof(*z->items));
	if (!z->cumulated || !z->items) {
		workload_zipf_drop(z);
		return -ENOMEM;
	}
	workload_shuffle(z->items, n, state);
	for (uint64_t i = 0; i < n; i++) {
		sum += pow((double)(i + 1), -skew);
		z->cumulated[i] = sum;
	}
	return 0;
}

void workload_zipf_drop(struct workload_zipf *z)
{
	free(z->cumulated);
	free(z->items);
	*z = (struct workload_zipf){ 0 };
}

uint32_t workload_zipf_draw(const struct workload_zipf *z, uint64_t *state)
{
	double v = workload_random_unit(state) * z->cumulated[z->n - 1];
	uint64_t low = 0, high = z->n - 1;

	/* The first rank whose cumulated weight reaches v. */
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (z->cumulated[middle] < v)
			low = middle + 1;
		else
			high = middle;
	}
	return z->items[low];
}

static int workload_make_zipf(struct workload *w, uint64_t *state)
{
	struct workload_zipf z;
	int error = workload_zipf_make(&z, w->nr_blocks, WORKLOAD_ZIPF_SKEW, state);

	if (error)
		return error;
	for (uint64_t i = 0; i < WORKLOAD_STEPS; i++)
		w->units[ACCESS_ZIPF][i] =
			workload_unit_of(workload_zipf_draw(&z, state), state);
	workload_zipf_drop(&z);
	return 0;
}

int workload_make(struct workload *w, uint64_t file_bytes, uint64_t seed)
{
	uint64_t state = seed;
	uint64_t hot;
	int error;

	*w = (struct workload){ .nr_blocks = file_bytes / LODIC_BLOCK_BYTES,
		                .seed = seed };
	if (w->nr_blocks == 0 || file_bytes / WORKLOAD_UNIT_BYTES > UINT32_MAX)
		return -EINVAL;
	for (int a = 0; a < NR_ACCESSES; a++) {
		w->units[a] = malloc(WORKLOAD_STEPS * sizeof(*w->units[a]));
		if (!w->units[a]) {
			workload_drop(w);
			return -ENOMEM;
		}
	}
	hot = workload_random_below(&state, w->nr_blocks);
	for (uint64_t i = 0; i < WORKLOAD_STEPS; i++) {
		w->units[ACCESS_HOT][i] = workload_unit_of(hot, &state);
		w->units[ACCESS_RANDOM][i] = workload_unit_of(
			workload_random_below(&state, w->nr_blocks), &state);
	}
	error = workload_make_zipf(w, &state);
	if (error)
		workload_drop(w);
	return error;
}

void workload_drop(struct workload *w)
{
	for (int a = 0; a < NR_ACCESSES; a++) {
		free(w->units[a]);
		w->units[a] = NULL;
	}
}
