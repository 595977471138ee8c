/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* lodic._lodic.Attachment: this process's way to a cache. */
#include <errno.h>
#include <stddef.h>

#include "python/binding.h"

static PyObject *attachment_new(PyTypeObject *type, PyObject *args, PyObject *words)
{
	static char *names[] = { "socket",       "service", "memory",
		                 "idle_exit_ms", "holds",   NULL };
	struct lodic_options options = { .bytes = sizeof(options) };
	allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	unsigned long long memory = 0, holds = 0;
	unsigned int idle = 0;
	struct binding_attachment *self;
	int err;

	if (!PyArg_ParseTupleAndKeywords(args, words, "zzKIK:Attachment", names,
	                                 &options.socket, &options.service, &memory,
	                                 &idle, &holds))
		return NULL;
	options.cache_bytes = memory;
	options.idle_exit_ms = idle;
	options.hold_bytes = holds;
	self = (struct binding_attachment *)alloc(type, 0);
	if (!self)
		return NULL;
	BINDING_BEGIN_CALL
	err = lodic_attach(&options, &self->lodic);
	BINDING_END_CALL
	if (err) {
		binding_cache_error(err, NULL);
		Py_DECREF(self);
		return NULL;
	}
	return (PyObject *)self;
}

static void attachment_dealloc(PyObject *object)
{
	struct binding_attachment *self = (struct binding_attachment *)object;
	PyTypeObject *type = Py_TYPE(object);
	freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);

	if (self->lodic) {
		BINDING_BEGIN_CALL
		seats_end(&self->seats);
		lodic_detach(self->lodic);
		BINDING_END_CALL
	}
	free_object(object);
	Py_DECREF(type);
}

#define STAT(field, kind, meaning) { #field, offsetof(struct lodic_stat, field) },
static const struct {
	const char *name;
	size_t at;
} attachment_fields[] = {
#include "lib/stat_list.h"
};
#undef STAT
_Static_assert(sizeof(attachment_fields) / sizeof(*attachment_fields) *
                               sizeof(uint64_t) ==
                       sizeof(struct lodic_stat),
               "each field of struct lodic_stat has its line");

static PyObject *attachment_stat(PyObject *object, PyObject *unused)
{
	struct binding_attachment *self = (struct binding_attachment *)object;
	PyObject *all, *value;
	struct lodic_stat stat;
	int err;

	(void)unused;
	BINDING_BEGIN_CALL
	err = lodic_stat(self->lodic, &stat, sizeof(stat));
	BINDING_END_CALL
	if (err)
		return binding_cache_error(err, NULL);
	all = PyDict_New();
	for (size_t i = 0;
	     all && i < sizeof(attachment_fields) / sizeof(*attachment_fields); i++) {
		const void *field = (const char *)&stat + attachment_fields[i].at;

		value = PyLong_FromUnsignedLongLong(*(const uint64_t *)field);
		if (!value ||
		    PyDict_SetItemString(all, attachment_fields[i].name, value))
			Py_CLEAR(all);
		Py_XDECREF(value);
	}
	return all;
}

static PyMethodDef attachment_methods[] = {
	{ "stat", attachment_stat, METH_NOARGS,
	  "stat($self)\n--\n\nWhat the cache holds and has done: a dict of numbers." },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot attachment_slots[] = {
	{ Py_tp_doc, "Attachment(socket, service, memory, idle_exit_ms, holds)\n--\n\n"
	             "This process's attachment to a cache." },
	{ Py_tp_new, (void *)attachment_new },
	{ Py_tp_dealloc, (void *)attachment_dealloc },
	{ Py_tp_methods, attachment_methods },
	{ 0, NULL },
};

static PyType_Spec attachment_spec = {
	.name = "lodic._lodic.Attachment",
	.basicsize = sizeof(struct binding_attachment),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = attachment_slots,
};

int binding_add_attachment(PyObject *module)
{
	return binding_add_type(module, &attachment_spec);
}
