/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The counting schemes, one line each: COUNT_SCHEME(count_x) is the struct count_scheme
 * count_x of core/count_x.c. Included by core/count/count.h and core/count/count.c, and read by
 * core/meson.build, which builds that file; so a line here is all that a new scheme needs
 * to be in the checker, the timing model, the native benchmarks and their figures
 * (doc/add-a-scheme.md). No guard: what a line means is for the includer to say.
 */
COUNT_SCHEME(count_null)
COUNT_SCHEME(count_atomic)
COUNT_SCHEME(count_frozen)
COUNT_SCHEME(count_hazard)
COUNT_SCHEME(count_snzi)
COUNT_SCHEME(count_sloppy)
COUNT_SCHEME(count_percpu)
COUNT_SCHEME(count_refcache)
COUNT_SCHEME(count_paygo)
COUNT_SCHEME(count_owned)
COUNT_SCHEME(count_owned_file)
COUNT_SCHEME(count_owned_flag)
COUNT_SCHEME(count_template)
