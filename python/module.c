/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The extension module _lodic: what it offers, and how it says what went wrong. */
#include <errno.h>
#include <stdlib.h>

#include "python/binding.h"

/* A type of this module. NULL: an exception is set. */
static PyObject *module_type(const char *name)
{
	PyObject *module = PyImport_ImportModule("lodic._lodic");
	PyObject *type = module ? PyObject_GetAttrString(module, name) : NULL;

	Py_XDECREF(module);
	return type;
}

PyObject *binding_cache_error(int error, PyObject *name)
{
	/* Both are of this thread's last call, so they come before all else. */
	PyObject *reason = PyUnicode_FromString(lodic_reason_name(lodic_reason(error)));
	PyObject *text = PyUnicode_DecodeFSDefault(lodic_strerror(error));
	PyObject *type = module_type("CacheError"), *exception = NULL;

	if (type && text && reason)
		exception = PyObject_CallFunction(type, name ? "iOO" : "iO", abs(error),
		                                  text, name);
	if (exception && !PyObject_SetAttrString(exception, "reason", reason))
		PyErr_SetObject(type, exception);
	Py_XDECREF(exception);
	Py_XDECREF(type);
	Py_XDECREF(text);
	Py_XDECREF(reason);
	return NULL;
}

PyObject *binding_error(int error, PyObject *name)
{
	if (lodic_reason(error) != LODIC_REASON_NONE)
		return binding_cache_error(error, name);
	errno = abs(error);
	return name ? PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, name)
	            : PyErr_SetFromErrno(PyExc_OSError);
}

/* OSError would choose FileNotFoundError or PermissionError by its number, as if the file were
 * missing that the program wants. A type of its own stays what it is. */
static int module_add_errors(PyObject *module)
{
	PyObject *words = Py_BuildValue("{s:s}", "reason", "none");
	PyObject *type =
		words ? PyErr_NewExceptionWithDoc(
				"lodic.CacheError",
				"The cache could not do what it was asked for. The file "
				"itself may be well.\n\nThe attribute `reason` is a "
				"word for programs, such as \"no-folder\". `strerror` "
				"says it in a sentence, and\n`errno` is that of "
				"liblodic.",
				PyExc_OSError, words)
		      : NULL;
	int err = type ? PyModule_AddObjectRef(module, "CacheError", type) : -1;

	Py_XDECREF(type);
	Py_XDECREF(words);
	return err;
}

int binding_add_type(PyObject *module, PyType_Spec *spec)
{
	PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
	int err;

	if (!type)
		return -1;
	err = PyModule_AddType(module, (PyTypeObject *)type);
	Py_DECREF(type);
	return err;
}

int binding_is(PyObject *object, const char *type)
{
	PyObject *wanted = module_type(type);
	int is = wanted ? PyObject_IsInstance(object, wanted) : -1;

	Py_XDECREF(wanted);
	if (is == 0)
		PyErr_Format(PyExc_TypeError,
		             "the first argument must be of the type %s", type);
	return is == 1;
}

static PyObject *module_strerror(PyObject *module, PyObject *arg)
{
	long error = PyLong_AsLong(arg);

	(void)module;
	if (error == -1 && PyErr_Occurred())
		return NULL;
	return PyUnicode_DecodeFSDefault(lodic_strerror((int)error));
}

static PyObject *module_settle(PyObject *module, PyObject *unused)
{
	(void)module;
	(void)unused;
	Py_BEGIN_ALLOW_THREADS
	settle_wait();
	Py_END_ALLOW_THREADS
	Py_RETURN_NONE;
}

static int module_exec(PyObject *module)
{
	if (module_add_errors(module) || binding_add_attachment(module) ||
	    binding_add_file(module) || binding_add_hold(module) ||
	    binding_add_private(module))
		return -1;
	return PyModule_AddStringConstant(module, "version", lodic_version());
}

static PyMethodDef module_methods[] = {
	{ "strerror", module_strerror, METH_O,
	  "strerror(error)\n--\n\nWhat an error of liblodic means, and what to do." },
	{ "settle", module_settle, METH_NOARGS,
	  "settle()\n--\n\nWaits until other libraries' threads are done with this module." },
	{ NULL, NULL, 0, NULL },
};

static PyModuleDef_Slot module_slots[] = {
	{ Py_mod_exec, (void *)module_exec },
	{ 0, NULL },
};

static PyModuleDef module_definition = {
	PyModuleDef_HEAD_INIT,
	.m_name = "_lodic",
	.m_doc = "liblodic for Python. Use the package lodic, which is made of this.",
	.m_methods = module_methods,
	.m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__lodic(void);
PyMODINIT_FUNC PyInit__lodic(void)
{
	static int begun;
	int err = begun ? 0 : seats_begin();

	if (!err && !begun)
		err = settle_begin();
	if (err)
		return binding_error(err, NULL);
	begun = 1;
	return PyModuleDef_Init(&module_definition);
}
