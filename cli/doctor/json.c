/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the doctor writes for machines: one object, with every file. */
#include <errno.h>
#include <jansson.h>
#include <unistd.h>

#include "cli/doctor/advice.h"
#include "cli/doctor/forecast.h"
#include "cli/doctor/host.h"
#include "cli/doctor/report.h"
#include "cli/text.h"

static void put(json_t *o, const char *name, uint64_t n)
{
	json_object_set_new(o, name, json_integer((json_int_t)n));
}

/* Numbers with four digits behind the point. */
static void put_real(json_t *o, const char *name, double x)
{
	json_object_set_new(o, name, json_real((double)(int64_t)(x * 1e4 + 0.5) / 1e4));
}

static json_t *counts_json(const struct doctor_counts *c)
{
	json_t *o = json_object();

	for (unsigned int i = RUN_SERVED + 1; i < RUN_NR_WHYS; i++)
		json_object_set_new(o, run_why_name(i),
		                    json_pack("{s:I,s:I}", "reads",
		                              (json_int_t)c->reads[i], "bytes",
		                              (json_int_t)c->bytes[i]));
	return o;
}

static json_t *file_json(const struct doctor_file *f)
{
	json_t *o = json_object();

	json_object_set_new(o, "path", text_json(f->path));
	put(o, "size", f->size);
	put(o, "blocks", f->blocks);
	json_object_set_new(o, "reads", counts_json(&f->counts));
	json_object_set_new(o, "qualifies",
	                    json_boolean(doctor_qualifies(f, DOCTOR_NOW)));
	json_object_set_new(o, "asked", json_boolean(f->asked));
	json_object_set_new(o, "qualifies_promised",
	                    json_boolean(doctor_qualifies(f, DOCTOR_PROMISED)));
	json_object_set_new(o, "errno", json_integer(-f->refused));
	json_object_set_new(o, "why", text_json(doctor_file_why(f)));
	if (f->service_asked)
		json_object_set_new(o, "service",
		                    json_pack("{s:i,s:o,s:b,s:I}", "errno",
		                              -f->service_refused, "why",
		                              text_json(f->service_why), "promise",
		                              f->service_promised, "cached_bytes",
		                              (json_int_t)f->service_bytes));
	return o;
}

static json_t *maps_json(const struct doctor_maps *m)
{
	json_t *o = json_object(), *files = json_array();

	put(o, "pid", (uint64_t)m->pid);
	put(o, "mappings", m->nr);
	put(o, "of_files", m->nr_of_files);
	put(o, "file_bytes", m->bytes);
	put(o, "file_resident_bytes", m->resident_bytes);
	json_object_set_new(o, "io_uring", json_boolean(m->rings));
	for (unsigned int i = 0; i < DOCTOR_MAPPED && i < m->nr_of_files; i++) {
		json_t *file = json_object();

		json_object_set_new(file, "path", text_json(m->files[i].path));
		put(file, "place_from_top", m->files[i].place);
		put(file, "bytes", m->files[i].bytes);
		json_array_append_new(files, file);
	}
	json_object_set_new(o, "files", files);
	return o;
}

static json_t *prices_json(const struct doctor_price *p)
{
	json_t *o = json_object();

	json_object_set_new(o, "known", json_boolean(p->known));
	json_object_set_new(o, "why", text_json(p->why));
	put(o, "span_bytes", p->span_bytes);
	json_object_set_new(o, "path", text_json(p->path));
	put_real(o, "fstat_ns", p->fstat_ns);
	put_real(o, "start_ns", p->start_ns);
	put_real(o, "noise", p->noise);
	put_real(o, "new_file_ns", p->new_ns);
	for (unsigned int w = 0; p->known && w < DOCTOR_WAYS; w++) {
		json_t *sizes = json_array();

		for (unsigned int i = 0; i < DOCTOR_SIZES; i++) {
			struct series_spread s =
				doctor_price_spread(p, DOCTOR_HOT, w, i);
			json_t *size = json_object();

			put(size, "bytes", seen_size_ends[i]);
			put_real(size, "median_ns", s.median);
			put_real(size, "low_ns", s.low);
			put_real(size, "high_ns", s.high);
			put_real(size, "cold_ns",
			         doctor_price_spread(p, DOCTOR_COLD, w, i).median);
			json_array_append_new(sizes, size);
		}
		json_object_set_new(o, doctor_way_names[w], sizes);
	}
	return o;
}

/* Of each class of sizes; null: no read was of it. */
static json_t *slower_json(const struct doctor *d)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < SEEN_SIZES; i++) {
		uint64_t n = d->counts.size_reads[i];

		json_array_append_new(
			list,
			n && d->price.known
				? json_real(doctor_slower(
					  d, i, (double)d->counts.size_bytes[i] / n))
				: json_null());
	}
	return list;
}

static json_t *gain_json(const struct doctor_gain *g)
{
	json_t *o = json_object();

	put_real(o, "low", g->low);
	put_real(o, "expected", g->expected);
	put_real(o, "high", g->high);
	put_real(o, "first_run", g->first_run);
	put_real(o, "time_low", g->time_low);
	put_real(o, "time_high", g->time_high);
	put_real(o, "rounds_low", g->rounds_low);
	put_real(o, "rounds_high", g->rounds_high);
	return o;
}

/* null: none would change anything. */
static json_t *promise_json(const struct doctor *d)
{
	const struct doctor_promise *p = &d->promise;
	json_t *o = json_object(), *globs = json_array();

	if (p->nr == 0) {
		json_decref(o);
		json_decref(globs);
		return json_null();
	}
	for (unsigned int i = 0; i < p->nr; i++)
		json_array_append_new(globs, text_json(p->globs[i]));
	json_object_set_new(o, "file", json_string(p->file));
	json_object_set_new(o, "globs", globs);
	json_object_set_new(o, "of_memory", json_boolean(p->of_memory));
	return o;
}

/* null: none runs. */
static json_t *service_json(const struct doctor_service *s)
{
	json_t *o;

	if (!s->found)
		return json_null();
	o = json_object();
	json_object_set_new(o, "socket", text_json(s->socket));
	json_object_set_new(o, "pid", json_integer(s->pid));
	json_object_set_new(o, "errno", json_integer(-s->error));
	put(o, "cache_bytes", s->cache_bytes);
	put(o, "cached_bytes", s->cached_bytes);
	put(o, "hold_limit_bytes", s->hold_limit);
	put(o, "memory_limit_bytes", s->memory_limit);
	json_object_set_new(o, "immutable_by_option", json_boolean(s->by_option));
	return o;
}

static json_t *unseen_json(const struct doctor_unseen *u)
{
	json_t *o = json_object();

	put(o, "of_bytes", u->all);
	put(o, "past_the_shim_bytes", u->past);
	put(o, "past_the_shim_reads", u->past_reads);
	put(o, "mapped_bytes", u->mapped);
	put(o, "device_bytes", u->device);
	put(o, "unjudged_bytes", u->unjudged);
	json_object_set_new(o, "io_uring", json_boolean(u->rings));
	json_object_set_new(o, "go", json_boolean(u->go));
	json_object_set_new(o, "decides", json_boolean(u->decides));
	return o;
}

static json_t *memory_json(const struct doctor *d)
{
	json_t *o = json_object();

	put(o, "limit_bytes", d->memory.bytes);
	json_object_set_new(o, "of_group", json_boolean(d->memory.grouped));
	put(o, "touched_bytes", d->memory.touched_bytes);
	put(o, "in_order_bytes", d->counts.in_order_bytes);
	json_object_set_new(o, "why", text_json(doctor_memory_why(d, &d->gain)));
	return o;
}

static json_t *command_json(const struct doctor *d)
{
	json_t *words = json_array();

	for (char **word = d->command; word && *word; word++)
		json_array_append_new(words, text_json(*word));
	return words;
}

int doctor_write_json(const struct doctor *d)
{
	json_t *o = json_object(), *files = json_array(), *lacks = json_array();
	json_t *users = json_array(), *steps = json_array();
	const char *lack;
	int error;

	json_object_set_new(o, "command", command_json(d));
	put(o, "pid", (uint64_t)d->pid);
	put(o, "programs", d->nr_programs);
	put(o, "programs_lost", d->nr_lost);
	put(o, "wall_ns", d->wall_ns);
	put(o, "cpu_ns", d->cpu_ns);
	put(o, "system_ns", d->system_ns);
	put(o, "counting_ns", d->counted_ns);
	json_object_set_new(o, "io_known", json_boolean(d->io.known));
	put(o, "io_bytes", d->io.read_bytes);
	put(o, "io_reads", d->io.reads);
	put(o, "io_device_bytes", d->io.device_bytes);
	put(o, "moved_bytes", d->moved_bytes);
	put(o, "others_open", d->nr_others);
	json_object_set_new(o, "reads", counts_json(&d->counts));
	put(o, "covered_bytes", doctor_covered_bytes(d));
	for (size_t i = 0; i < d->nr_files; i++)
		json_array_append_new(files, file_json(&d->files[i]));
	json_object_set_new(o, "files", files);
	json_object_set_new(o, "mappings", maps_json(&d->maps));
	json_object_set_new(o, "prices", prices_json(&d->price));
	json_object_set_new(o, "slower", slower_json(d));
	json_object_set_new(o, "gain", gain_json(&d->gain));
	json_object_set_new(o, "gain_promised", gain_json(&d->promised_gain));
	json_object_set_new(o, "promise", promise_json(d));
	json_object_set_new(o, "service", service_json(&d->service));
	json_object_set_new(o, "unseen", unseen_json(&d->unseen));
	json_object_set_new(o, "interrupted", json_boolean(d->interrupted));
	for (unsigned int i = 0; i < d->nr_users; i++)
		json_array_append_new(users, json_integer(d->users[i]));
	json_object_set_new(o, "users", users);
	json_object_set_new(o, "memory", memory_json(d));
	put(o, "cache_bytes", d->gain.cache_bytes);
	put(o, "cache_setting_bytes", d->cache_setting);
	json_object_set_new(o, "advice", json_string(doctor_advice_name(d->advice)));
	json_object_set_new(o, "advice_why", text_json(d->why));
	for (unsigned int i = 0; i < d->nr_steps; i++)
		json_array_append_new(steps, text_json(d->steps[i]));
	json_object_set_new(o, "steps", steps);
	json_object_set_new(o, "holds", json_boolean(doctor_fits_holds(d)));
	for (unsigned int i = 0; (lack = doctor_host_lacks(i)); i++)
		json_array_append_new(lacks, json_string(lack));
	json_object_set_new(o, "lacks", lacks);
	errno = EIO;
	error = json_dumpfd(o, d->json_fd, JSON_INDENT(1)) == 0 ? 0 : -errno;
	json_decref(o);
	close(d->json_fd);
	return error;
}
