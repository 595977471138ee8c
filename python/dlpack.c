/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A hold as a DLPack tensor of bytes. DLPack says that memory is read-only since version 1.0, so
 * a consumer of an older one gets nothing. Some consumers do not look at that (PyTorch 2.15), and
 * a write to a hold is a SIGSEGV. So the tensor is of a private mapping: a write there changes a
 * copy that only this process has. The structs are those of the DLPack specification.
 */
#include <stdlib.h>

#include "python/binding.h"

#define DLPACK_CPU 1
#define DLPACK_UINT 1
#define DLPACK_READ_ONLY 1u

struct dlpack_version {
	uint32_t major, minor;
};

struct dlpack_tensor {
	void *data;
	struct {
		int32_t type, id;
	} device;
	int32_t ndim;
	struct {
		uint8_t code, bits;
		uint16_t lanes;
	} dtype;
	int64_t *shape, *strides;
	uint64_t byte_offset;
};

struct dlpack_managed {
	struct dlpack_version version;
	void *context;
	void (*deleter)(struct dlpack_managed *self);
	uint64_t flags;
	struct dlpack_tensor tensor;
};

struct dlpack {
	struct dlpack_managed managed;
	struct binding_map map;
	int64_t shape, stride;
};

/* The consumer calls it, on any thread. */
static void dlpack_delete(struct dlpack_managed *managed)
{
	struct dlpack *dlpack = (struct dlpack *)managed;

	binding_map_end(&dlpack->map);
	free(dlpack);
}

/* A consumer that takes the tensor gives the capsule another name. */
static void dlpack_capsule_ends(PyObject *capsule)
{
	struct dlpack_managed *managed;

	if (!PyCapsule_IsValid(capsule, "dltensor_versioned"))
		return;
	managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
	managed->deleter(managed);
}

PyObject *binding_dlpack(struct binding_held *held)
{
	struct dlpack *dlpack = calloc(1, sizeof(*dlpack));
	PyObject *capsule;

	if (!dlpack)
		return PyErr_NoMemory();
	if (binding_map_begin(held, &dlpack->map)) {
		free(dlpack);
		return NULL;
	}
	dlpack->shape = (int64_t)held->bytes;
	dlpack->stride = 1;
	dlpack->managed = (struct dlpack_managed){
		.version = { .major = 1, .minor = 0 },
		.deleter = dlpack_delete,
		.flags = DLPACK_READ_ONLY,
		.tensor = {
			.data = dlpack->map.data,
			.device = { .type = DLPACK_CPU },
			.ndim = 1,
			.dtype = { .code = DLPACK_UINT, .bits = 8, .lanes = 1 },
			.shape = &dlpack->shape,
			.strides = &dlpack->stride,
		},
	};
	capsule = PyCapsule_New(&dlpack->managed, "dltensor_versioned",
	                        dlpack_capsule_ends);
	if (!capsule)
		dlpack_delete(&dlpack->managed);
	return capsule;
}
