/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The table of counting schemes, and what all of them share. Contract: core/count/count.h. */
#include "core/count/count.h"

const struct count_scheme *const count_schemes[] = {
#define COUNT_SCHEME(scheme) &scheme,
#include "core/count/count_list.h"
#undef COUNT_SCHEME
};
const u32 count_nr_schemes = sizeof(count_schemes) / sizeof(count_schemes[0]);

bool count_scheme_is_shown(const struct count_scheme *scheme)
{
	return scheme->counts && scheme != &count_template;
}

/* A longer name is not a scheme's. */
#define NAME_MAX_BYTES 32u

static bool name_is(const char *a, const char *b)
{
	u32 i;

	for (i = 0; i < NAME_MAX_BYTES; i++) {
		if (a[i] != b[i])
			return false;
		if (a[i] == 0)
			return true;
	}
	return false;
}

const struct count_scheme *count_scheme_find(const char *name)
{
	u32 i;

	for (i = 0; i < count_nr_schemes; i++)
		if (name_is(count_schemes[i]->name, name))
			return count_schemes[i];
	return NULL;
}

int count_init(struct count *c, const struct count_scheme *scheme,
               const struct frame *frames, u32 nr_objects, u32 nr_users)
{
	if (nr_objects == 0 || nr_users == 0)
		return -EINVAL;
	*c = (struct count){ .scheme = scheme,
		             .frames = frames,
		             .nr_objects = nr_objects,
		             .nr_users = nr_users };
	return scheme->init(c);
}

void count_fini(struct count *c)
{
	c->scheme->fini(c);
	c->state = NULL;
}

u32 count_held_on(const struct count_held *held, u32 nr_held, u32 object)
{
	u32 nr = 0;
	u32 i;

	for (i = 0; i < nr_held; i++)
		nr += held[i].object == object;
	return nr;
}

void count_check(struct count *c, const struct count_held *held, u32 nr_held)
{
	u32 object;

	for (object = 0; c->scheme->counts && object < c->nr_objects; object++) {
		u32 nr = count_held_on(held, nr_held, object);

		CHECK(count_sum(c, object) == nr, "N5: sum is what is held");
		CHECK(count_query(c, object) == (nr > 0) ||
		              (nr == 0 && c->scheme->table),
		      "N4: query at rest");
	}
	c->scheme->check(c, held, nr_held);
}
