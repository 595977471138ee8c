/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* lodic._lodic.OpenFile: a file that is read through the cache. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "python/binding.h"

static PyObject *file_new(PyTypeObject *type, PyObject *args, PyObject *words)
{
	static char *names[] = { "attachment", "fd", "name", NULL };
	allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	PyObject *attachment, *name;
	struct binding_file *self;
	int fd, err;

	if (!PyArg_ParseTupleAndKeywords(args, words, "OiO:OpenFile", names,
	                                 &attachment, &fd, &name) ||
	    (attachment != Py_None && !binding_is(attachment, "Attachment")))
		return NULL;
	self = (struct binding_file *)alloc(type, 0);
	if (!self)
		return NULL;
	Py_INCREF(name);
	self->name = name;
	self->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (self->fd < 0) {
		PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, name);
		Py_DECREF(self);
		return NULL;
	}
	if (attachment == Py_None)
		return (PyObject *)self;
	Py_INCREF(attachment);
	self->attachment = (struct binding_attachment *)attachment;
	BINDING_BEGIN_CALL
	err = lodic_open(self->attachment->lodic, self->fd, &self->file);
	BINDING_END_CALL
	if (err) {
		binding_error(err, name);
		Py_DECREF(self);
		return NULL;
	}
	return (PyObject *)self;
}

static void file_dealloc(PyObject *object)
{
	struct binding_file *self = (struct binding_file *)object;
	PyTypeObject *type = Py_TYPE(object);
	freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);

	if (self->file) {
		BINDING_BEGIN_CALL
		lodic_close(self->file);
		BINDING_END_CALL
	}
	if (self->fd >= 0)
		close(self->fd);
	Py_XDECREF(self->name);
	Py_XDECREF((PyObject *)self->attachment);
	free_object(object);
	Py_DECREF(type);
}

/* Copies up to n bytes from offset on. Without a context, as when the service has no room for one
 * more, the kernel reads them. The interpreter's lock is free. */
static ssize_t file_copy(struct binding_file *self, void *to, size_t n, off_t offset)
{
	struct lodic_context *context;
	ssize_t got;

	if (self->file && seats_context(&self->attachment->seats,
	                                self->attachment->lodic, &context) == 0)
		return lodic_read(context, self->file, to, n, offset);
	got = pread(self->fd, to, n, offset);
	return got < 0 ? -errno : got;
}

/* The same, to the end of the buffer or of the file. A signal's handler may run in between, and
 * may raise an exception: then -1. */
static ssize_t file_copy_all(struct binding_file *self, void *to, size_t n,
                             off_t offset)
{
	size_t done = 0;

	while (done < n) {
		ssize_t got;

		BINDING_BEGIN_CALL
		got = file_copy(self, (char *)to + done, n - done,
		                offset + (off_t)done);
		BINDING_END_CALL
		if (got == 0)
			break;
		if (got > 0)
			done += (size_t)got;
		else if (got != -EINTR)
			binding_error((int)got, self->name);
		if ((got < 0 && got != -EINTR) || PyErr_CheckSignals())
			return -1;
	}
	return (ssize_t)done;
}

static PyObject *file_read_into(PyObject *object, PyObject *args)
{
	Py_buffer buffer;
	long long offset;
	ssize_t n;

	if (!PyArg_ParseTuple(args, "w*L:read_into", &buffer, &offset))
		return NULL;
	n = file_copy_all((struct binding_file *)object, buffer.buf, (size_t)buffer.len,
	                  (off_t)offset);
	PyBuffer_Release(&buffer);
	return n < 0 ? NULL : PyLong_FromSsize_t(n);
}

static PyObject *file_read(PyObject *object, PyObject *args)
{
	PyObject *bytes, *part;
	long long offset;
	Py_ssize_t n;
	ssize_t got;

	if (!PyArg_ParseTuple(args, "nL:read", &n, &offset))
		return NULL;
	if (n < 0) {
		PyErr_SetString(PyExc_ValueError, "the number of bytes is negative");
		return NULL;
	}
	bytes = PyBytes_FromStringAndSize(NULL, n);
	if (!bytes)
		return NULL;
	got = file_copy_all((struct binding_file *)object, PyBytes_AsString(bytes),
	                    (size_t)n, (off_t)offset);
	if (got == n)
		return bytes;
	part = got < 0 ? NULL : PyBytes_FromStringAndSize(PyBytes_AsString(bytes), got);
	Py_DECREF(bytes);
	return part;
}

bool binding_has_cache(struct binding_file *file)
{
	if (!file->file)
		PyErr_SetString(PyExc_ValueError,
		                "this file was opened without a cache");
	return file->file != NULL;
}

static PyObject *file_prefetch(PyObject *object, PyObject *args)
{
	struct binding_file *self = (struct binding_file *)object;
	struct lodic_context *context;
	unsigned long long n;
	long long offset;
	int wait, err;

	if (!PyArg_ParseTuple(args, "LKp:prefetch", &offset, &n, &wait) ||
	    !binding_has_cache(self))
		return NULL;
	BINDING_BEGIN_CALL
	err = seats_context(&self->attachment->seats, self->attachment->lodic,
	                    &context);
	if (!err)
		err = lodic_prefetch(context, self->file, (off_t)offset, n,
		                     wait ? LODIC_WAIT : 0);
	if (err == -ESTALE && lodic_file_cached(self->file))
		err = lodic_file_cached(self->file); /* why it is not */
	BINDING_END_CALL
	if (err)
		return binding_cache_error(err, self->name);
	Py_RETURN_NONE;
}

/* The reason and its text are of this thread's last call, so one function gives them all. */
static PyObject *file_why_not(PyObject *object, PyObject *unused)
{
	struct binding_file *self = (struct binding_file *)object;
	int err;

	(void)unused;
	if (!binding_has_cache(self))
		return NULL;
	BINDING_BEGIN_CALL
	err = lodic_file_cached(self->file);
	BINDING_END_CALL
	if (!err)
		Py_RETURN_NONE;
	return Py_BuildValue("(sN)", lodic_reason_name(lodic_reason(err)),
	                     PyUnicode_DecodeFSDefault(lodic_strerror(err)));
}

static PyObject *file_fileno(PyObject *object, PyObject *unused)
{
	(void)unused;
	return PyLong_FromLong(((struct binding_file *)object)->fd);
}

static PyMethodDef file_methods[] = {
	{ "read_into", file_read_into, METH_VARARGS,
	  "read_into($self, buffer, offset, /)\n--\n\nCopies bytes to buffer; how many." },
	{ "read", file_read, METH_VARARGS,
	  "read($self, n, offset, /)\n--\n\nUp to n bytes from offset on." },
	{ "prefetch", file_prefetch, METH_VARARGS,
	  "prefetch($self, offset, n, wait, /)\n--\n\nLets the service bring bytes in." },
	{ "why_not", file_why_not, METH_NOARGS,
	  "why_not($self)\n--\n\nNone: the file is cached. Else a reason, and its text." },
	{ "fileno", file_fileno, METH_NOARGS,
	  "fileno($self)\n--\n\nThe descriptor, which stays this object's." },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot file_slots[] = {
	{ Py_tp_doc,
	  "OpenFile(attachment, fd, name)\n--\n\nA file, opened by a descriptor. Without an "
	  "attachment, the kernel reads it." },
	{ Py_tp_new, (void *)file_new },
	{ Py_tp_dealloc, (void *)file_dealloc },
	{ Py_tp_methods, file_methods },
	{ 0, NULL },
};

static PyType_Spec file_spec = {
	.name = "lodic._lodic.OpenFile",
	.basicsize = sizeof(struct binding_file),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = file_slots,
};

int binding_add_file(PyObject *module)
{
	return binding_add_type(module, &file_spec);
}
