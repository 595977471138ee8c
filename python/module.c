/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The extension module _lodic: what it offers, and how it says what went wrong. */
#include "python/binding.h"

PyObject *binding_error(int error, PyObject *name)
{
	int positive = error < 0 ? -error : error;
	PyObject *exception;

	exception = name ? PyObject_CallFunction(PyExc_OSError, "isO", positive,
	                                         lodic_strerror(error), name)
	                 : PyObject_CallFunction(PyExc_OSError, "is", positive,
	                                         lodic_strerror(error));
	if (exception) {
		PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
		Py_DECREF(exception);
	}
	return NULL;
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
	PyObject *module = PyImport_ImportModule("lodic._lodic");
	PyObject *wanted = module ? PyObject_GetAttrString(module, type) : NULL;
	int is = wanted ? PyObject_IsInstance(object, wanted) : -1;

	Py_XDECREF(wanted);
	Py_XDECREF(module);
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
	return PyUnicode_FromString(lodic_strerror((int)error));
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
	if (binding_add_attachment(module) || binding_add_file(module) ||
	    binding_add_hold(module) || binding_add_private(module))
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
