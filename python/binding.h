/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the files of the extension module _lodic share. The extension has CPython's limited API
 * alone, so one build serves Python 3.11 and every later version.
 *
 * The module has three types, and lodic/ makes of them what users see. A Python object is freed
 * on any thread: where its last reference goes, or where the collector runs. So there are no pins
 * here, which their own thread must give back. An Attachment keeps a context for each thread that
 * reads (seats.h). The interpreter's lock is free while a call of liblodic may wait. Before the
 * interpreter ends, the threads of other libraries let go of what they have (settle.h).
 *
 * In a forked child liblodic wants a new attachment. lodic/ sees to that: the C code closes what
 * the child has inherited, and never uses it for anything else.
 */
#ifndef LODIC_PYTHON_BINDING_H
#define LODIC_PYTHON_BINDING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>

#include <lodic/lodic.h>

#include "python/seats.h"
#include "python/settle.h"

/* A call of liblodic that may wait: the interpreter's lock is free meanwhile. */
#define BINDING_BEGIN_CALL \
	settle_enter(); \
	Py_BEGIN_ALLOW_THREADS
#define BINDING_END_CALL \
	Py_END_ALLOW_THREADS \
	settle_leave();

/* lodic._lodic.Attachment: lodic_attach(), and the contexts of the threads that read. */
struct binding_attachment {
	PyObject_HEAD
	struct lodic *lodic; /* NULL: it could not attach */
	struct seats seats;
};

/* lodic._lodic.OpenFile: lodic_open(), and a descriptor for what liblodic cannot do. */
struct binding_file {
	PyObject_HEAD
	struct binding_attachment *attachment; /* NULL: without a cache */
	PyObject *name;          /* for messages: a path, or a descriptor's number */
	struct lodic_file *file; /* NULL: without a cache */
	int fd;
};

/* Makes the module's types known, under their names; -1: an exception is set. */
int binding_add_attachment(PyObject *module);
int binding_add_file(PyObject *module);
int binding_add_hold(PyObject *module);
int binding_add_type(PyObject *module, PyType_Spec *spec);

/* Is the object of this type of the module? 0: no, and an exception says so. */
int binding_is(PyObject *object, const char *type);

/* Was the file opened with a cache? If not, an exception says so. */
bool binding_has_cache(struct binding_file *file);

/* After a call of this thread has failed by this error. name may be NULL. Both return NULL.
 * binding_cache_error() sets CacheError. binding_error() is for what the kernel may have refused:
 * without a reason of liblodic it sets OSError, or what that is for this errno. */
PyObject *binding_error(int error, PyObject *name);
PyObject *binding_cache_error(int error, PyObject *name);

/* The memory of a hold, with those that use it: the Python object, and its buffers. The last one
 * releases it, on any thread and without the interpreter's lock. */
struct binding_held {
	uint64_t users; /* atomic */
	struct lodic_hold *hold;
	const void *data;
	uint64_t bytes;
};

void binding_held_get(struct binding_held *held);
void binding_held_put(struct binding_held *held);

/* A writable mapping of a hold's memory, which this process shares until it writes there. It
 * outlives the hold. */
struct binding_map {
	void *map;
	size_t map_bytes;
	char *data; /* the hold's first byte */
	size_t bytes;
};

/* Maps the hold. On an error an exception is set, and the result is -1. The interpreter's lock is
 * held by the first, and need not be by the second. */
int binding_map_begin(struct binding_held *held, struct binding_map *ret_map);
void binding_map_end(struct binding_map *map);

/* A writable buffer of the hold's bytes, and a capsule "dltensor_versioned" of them. NULL: an
 * exception is set. */
PyObject *binding_private(struct binding_held *held);
PyObject *binding_dlpack(struct binding_held *held);
int binding_add_private(PyObject *module);

#endif
