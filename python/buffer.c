/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* lodic._lodic.Hold: a range of a file in memory, as a read-only buffer for any thread. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "host/host.h"
#include "python/binding.h"

/* A signal wakes one thread, perhaps not the one that runs Python's handlers. That one looks so
 * often. Our choice: Ctrl-C seems immediate. */
#define HOLD_LOOK_MS 100
/* The service reads as many ranges for this program as it may. */
#define HOLD_BUSY_NS 5000000

struct binding_hold {
	PyObject_HEAD
	struct binding_held *held; /* NULL: closed */
};

void binding_held_get(struct binding_held *held)
{
	host_fetch_add(&held->users, 1);
}

void binding_held_put(struct binding_held *held)
{
	if (host_fetch_add(&held->users, -(uint64_t)1) != 1)
		return;
	lodic_release(held->hold);
	free(held);
}

/* Sets the exception for an error of lodic_hold(). Always returns -1. */
static int buffer_error(const struct binding_file *file, int err)
{
	/* A file that is not cached has a reason. */
	int why = err == -ESTALE ? lodic_file_cached(file->file) : 0;

	binding_cache_error(why ? why : err, file->name);
	return -1;
}

/* Begins a hold. -EAGAIN is not the caller's business: the call waits for its turn. -1: a
 * signal's handler has raised an exception. */
static int buffer_begin(struct binding_file *file, off_t offset, uint64_t n,
                        struct lodic_hold **ret_hold)
{
	const struct timespec pause = { .tv_nsec = HOLD_BUSY_NS };
	int err;

	for (;;) {
		BINDING_BEGIN_CALL
		err = lodic_hold(file->attachment->lodic, file->file, offset, n, 0,
		                 ret_hold);
		if (err == -EAGAIN)
			nanosleep(&pause, NULL);
		BINDING_END_CALL
		if (err != -EAGAIN)
			return err ? buffer_error(file, err) : 0;
		if (PyErr_CheckSignals())
			return -1;
	}
}

/* Waits until the bytes are there. -1: an exception is set. */
static int buffer_wait(struct binding_file *file, struct lodic_hold *hold)
{
	int ready;

	for (;;) {
		BINDING_BEGIN_CALL
		ready = lodic_hold_ready(hold);
		if (ready == 0) {
			struct pollfd event = { .fd = lodic_hold_event(hold),
				                .events = POLLIN };

			poll(&event, 1, HOLD_LOOK_MS);
		}
		BINDING_END_CALL
		if (ready < 0)
			return buffer_error(file, ready);
		if (PyErr_CheckSignals())
			return -1;
		if (ready > 0)
			return 0;
	}
}

/* -1: an exception is set. */
static int buffer_fill(struct binding_hold *self, struct binding_file *file,
                       off_t offset, uint64_t n)
{
	struct binding_held *held = calloc(1, sizeof(*held));

	if (!held) {
		PyErr_NoMemory();
		return -1;
	}
	if (buffer_begin(file, offset, n, &held->hold)) {
		free(held);
		return -1;
	}
	if (buffer_wait(file, held->hold)) {
		lodic_release(held->hold);
		free(held);
		return -1;
	}
	held->users = 1;
	held->data = lodic_hold_data(held->hold);
	held->bytes = lodic_hold_bytes(held->hold);
	self->held = held;
	return 0;
}

static PyObject *buffer_new(PyTypeObject *type, PyObject *args, PyObject *words)
{
	static char *names[] = { "file", "offset", "length", NULL };
	allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	unsigned long long length;
	struct binding_hold *self;
	long long offset;
	PyObject *file;

	if (!PyArg_ParseTupleAndKeywords(args, words, "OLK:Hold", names, &file, &offset,
	                                 &length) ||
	    !binding_is(file, "OpenFile") ||
	    !binding_has_cache((struct binding_file *)file))
		return NULL;
	self = (struct binding_hold *)alloc(type, 0);
	if (self &&
	    buffer_fill(self, (struct binding_file *)file, (off_t)offset, length))
		Py_CLEAR(self);
	return (PyObject *)self;
}

/* Nobody uses a buffer: each has a reference to this object. */
static void buffer_dealloc(PyObject *object)
{
	struct binding_hold *self = (struct binding_hold *)object;
	PyTypeObject *type = Py_TYPE(object);
	freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);

	if (self->held)
		binding_held_put(self->held);
	free_object(object);
	Py_DECREF(type);
}

/* The memory; NULL with an exception if it was closed. */
static struct binding_held *buffer_open(PyObject *object, PyObject *exception)
{
	struct binding_held *held = ((struct binding_hold *)object)->held;

	if (!held)
		PyErr_SetString(exception, "the hold is closed");
	return held;
}

static int buffer_get_buffer(PyObject *object, Py_buffer *view, int flags)
{
	struct binding_held *held = buffer_open(object, PyExc_ValueError);

	view->obj = NULL;
	if (!held || PyBuffer_FillInfo(view, object, (void *)held->data,
	                               (Py_ssize_t)held->bytes, 1, flags))
		return -1;
	view->internal = held;
	binding_held_get(held);
	return 0;
}

static void buffer_release_buffer(PyObject *object, Py_buffer *view)
{
	(void)object;
	binding_held_put(view->internal);
}

static PyObject *buffer_close(PyObject *object, PyObject *unused)
{
	struct binding_hold *self = (struct binding_hold *)object;
	uint64_t users;

	(void)unused;
	if (!self->held)
		Py_RETURN_NONE;
	users = host_load_acquire(&self->held->users);
	if (users > 1)
		return PyErr_Format(
			PyExc_BufferError,
			"%llu buffers still use this hold: release "
			"them, or drop the hold and let the last one end it",
			(unsigned long long)users - 1);
	binding_held_put(self->held);
	self->held = NULL;
	Py_RETURN_NONE;
}

static PyObject *buffer_descriptor(PyObject *object, PyObject *unused)
{
	struct binding_held *held = buffer_open(object, PyExc_ValueError);
	off_t at;
	int fd;

	(void)unused;
	if (!held)
		return NULL;
	binding_held_get(held);
	BINDING_BEGIN_CALL
	fd = lodic_hold_fd(held->hold, &at);
	BINDING_END_CALL
	binding_held_put(held);
	return fd < 0 ? binding_error(fd, NULL)
	              : Py_BuildValue("iL", fd, (long long)at);
}

static PyObject *buffer_private(PyObject *object, PyObject *unused)
{
	struct binding_held *held = buffer_open(object, PyExc_ValueError);

	(void)unused;
	return held ? binding_private(held) : NULL;
}

static PyObject *buffer_dlpack(PyObject *object, PyObject *unused)
{
	struct binding_held *held = buffer_open(object, PyExc_ValueError);

	(void)unused;
	return held ? binding_dlpack(held) : NULL;
}

static Py_ssize_t buffer_length(PyObject *object)
{
	struct binding_held *held = buffer_open(object, PyExc_ValueError);

	return held ? (Py_ssize_t)held->bytes : -1;
}

static PyObject *buffer_closed(PyObject *object, void *unused)
{
	(void)unused;
	return PyBool_FromLong(!((struct binding_hold *)object)->held);
}

static PyMethodDef buffer_methods[] = {
	{ "close", buffer_close, METH_NOARGS,
	  "close($self)\n--\n\nEnds the hold. BufferError: a buffer uses it." },
	{ "descriptor", buffer_descriptor, METH_NOARGS,
	  "descriptor($self)\n--\n\n"
	  "(fd, at): a new descriptor of the memory, and where the hold begins in it.\n\n"
	  "It is the caller's, and can only be read." },
	{ "private", buffer_private, METH_NOARGS,
	  "private($self)\n--\n\n"
	  "A writable buffer of the same bytes, which outlives the hold.\n\n"
	  "Memory is shared with all holds until this process writes to it." },
	{ "_dlpack", buffer_dlpack, METH_NOARGS, "_dlpack($self)\n--\n\nA capsule." },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef buffer_values[] = {
	{ "closed", buffer_closed, NULL, "Was the hold closed?", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot buffer_slots[] = {
	{ Py_tp_doc, "Hold(file, offset, length)\n--\n\nA range of a file in memory." },
	{ Py_tp_new, (void *)buffer_new },
	{ Py_tp_dealloc, (void *)buffer_dealloc },
	{ Py_tp_methods, buffer_methods },
	{ Py_tp_getset, buffer_values },
	{ Py_bf_getbuffer, (void *)buffer_get_buffer },
	{ Py_bf_releasebuffer, (void *)buffer_release_buffer },
	{ Py_mp_length, (void *)buffer_length },
	{ 0, NULL },
};

static PyType_Spec hold_spec = {
	.name = "lodic._lodic.Hold",
	.basicsize = sizeof(struct binding_hold),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
	.slots = buffer_slots,
};

int binding_add_hold(PyObject *module)
{
	return binding_add_type(module, &hold_spec);
}
