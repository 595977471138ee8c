/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * lodic._lodic.Private: a writable buffer of a hold's bytes. It is a private mapping of the hold's
 * memory. The kernel copies a page when this process first writes to it, and shares it until
 * then. Nobody can change or cut off that memory: a look is never a SIGBUS.
 */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "python/binding.h"

/* A huge page of the hold is entered as one only where address and place leave the same rest. */
#define PRIVATE_HUGE ((size_t)2 << 20)

struct binding_private {
	PyObject_HEAD
	struct binding_map map; /* map.map may be NULL: none */
};

/* Maps length bytes of fd from at on, where huge pages fit. NULL: errno says why not. */
static void *private_map(int fd, off_t at, size_t length)
{
	size_t more = length < PRIVATE_HUGE ? 0 : PRIVATE_HUGE, skip;
	char *room = mmap(NULL, length + more, PROT_NONE,
	                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *map;
	int err;

	if (room == MAP_FAILED)
		return NULL;
	skip = more ? ((size_t)at - (size_t)room) % PRIVATE_HUGE : 0;
	map = mmap(room + skip, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED,
	           fd, at);
	if (map == MAP_FAILED) {
		err = errno;
		munmap(room, length + more);
		errno = err;
		return NULL;
	}
	if (skip)
		munmap(room, skip);
	if (more - skip)
		munmap(map + length, more - skip);
	return map;
}

int binding_map_begin(struct binding_held *held, struct binding_map *ret_map)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), within, length;
	void *map = NULL;
	int fd, err = 0;
	off_t at;

	binding_held_get(held);
	BINDING_BEGIN_CALL
	fd = lodic_hold_fd(held->hold, &at);
	if (fd < 0) {
		err = fd;
	} else {
		within = (size_t)at % page;
		length = (within + (size_t)held->bytes + page - 1) / page * page;
		map = private_map(fd, at - (off_t)within, length);
		if (!map)
			err = -errno;
		close(fd);
	}
	BINDING_END_CALL
	if (err)
		binding_cache_error(err, NULL);
	else
		*ret_map = (struct binding_map){ .map = map,
			                         .map_bytes = length,
			                         .data = (char *)map + within,
			                         .bytes = (size_t)held->bytes };
	binding_held_put(held);
	return err ? -1 : 0;
}

void binding_map_end(struct binding_map *map)
{
	if (map->map)
		munmap(map->map, map->map_bytes);
}

PyObject *binding_private(struct binding_held *held)
{
	PyObject *module = PyImport_ImportModule("lodic._lodic");
	PyObject *type = module ? PyObject_GetAttrString(module, "Private") : NULL;
	struct binding_private *self = NULL;
	allocfunc alloc;

	Py_XDECREF(module);
	if (!type)
		return NULL;
	alloc = (allocfunc)PyType_GetSlot((PyTypeObject *)type, Py_tp_alloc);
	self = (struct binding_private *)alloc((PyTypeObject *)type, 0);
	Py_DECREF(type);
	if (self && binding_map_begin(held, &self->map))
		Py_CLEAR(self);
	return (PyObject *)self;
}

/* Each buffer has a reference to this object, so nobody looks at the memory now. */
static void private_dealloc(PyObject *object)
{
	struct binding_private *self = (struct binding_private *)object;
	PyTypeObject *type = Py_TYPE(object);
	freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);

	binding_map_end(&self->map);
	free_object(object);
	Py_DECREF(type);
}

static int private_get_buffer(PyObject *object, Py_buffer *view, int flags)
{
	struct binding_private *self = (struct binding_private *)object;

	return PyBuffer_FillInfo(view, object, self->map.data,
	                         (Py_ssize_t)self->map.bytes, 0, flags);
}

static Py_ssize_t private_length(PyObject *object)
{
	return (Py_ssize_t)((struct binding_private *)object)->map.bytes;
}

static PyType_Slot private_slots[] = {
	{ Py_tp_doc, "A writable buffer, shared until it is written to." },
	{ Py_tp_dealloc, (void *)private_dealloc },
	{ Py_bf_getbuffer, (void *)private_get_buffer },
	{ Py_mp_length, (void *)private_length },
	{ 0, NULL },
};

static PyType_Spec private_spec = {
	.name = "lodic._lodic.Private",
	.basicsize = sizeof(struct binding_private),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = private_slots,
};

int binding_add_private(PyObject *module)
{
	return binding_add_type(module, &private_spec);
}
