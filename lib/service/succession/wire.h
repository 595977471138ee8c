/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef LODIC_LIB_SERVICE_SUCCESSION_WIRE_H
#define LODIC_LIB_SERVICE_SUCCESSION_WIRE_H

struct service;

/* Tells each room of s where those are that it needs. Nothing else of s need be there. */
void service_wire(struct service *s);

#endif
