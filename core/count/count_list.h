/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The counting schemes, one line each: COUNT_SCHEME(count_x) is the struct count_scheme
 * count_x of core/count/count_x.c, or of core/owned/. core/count/count.h and count.c include
 * this list. core/count/meson.build reads it and builds the file; tests/stress/meson.build reads it
 * and runs the stress test of each scheme. So a new scheme needs only its line here: checker,
 * timing model, native benchmarks, figures and tests then have it (doc/add-a-scheme.md).
 * There is no guard, because the includer says what a line means.
 */
COUNT_SCHEME(count_null)
COUNT_SCHEME(count_atomic)
COUNT_SCHEME(count_frozen)
COUNT_SCHEME(count_hazard)
COUNT_SCHEME(count_snzi)
COUNT_SCHEME(count_snzi_sv6)
COUNT_SCHEME(count_sloppy)
COUNT_SCHEME(count_percpu)
COUNT_SCHEME(count_refcache)
COUNT_SCHEME(count_refcache_sv6)
COUNT_SCHEME(count_paygo)
COUNT_SCHEME(count_paygo_fold)
COUNT_SCHEME(count_owned)
COUNT_SCHEME(count_owned_file)
COUNT_SCHEME(count_owned_flag)
COUNT_SCHEME(count_hybrid)
COUNT_SCHEME(count_template)
