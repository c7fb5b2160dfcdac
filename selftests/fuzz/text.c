// SPDX-License-Identifier: GPL-2.0
/*
 * Prints and parses programs as text, one call a line:
 *
 *	r2 = bo_alloc client=r0 flags=0x0 device=0x0 length=0x10000
 *	sqe stream=r4 op=0x2 handle=r4.1 ... bell=0x1
 *	vm_unmap client=r0 vm=r1 addr=0x200000 length=0x1000 !async !rdonly !size=0x8
 *
 * rN is the resource that line N made (counted from 0, without comments), rN.1 the second resource
 * that it made.  An argument that is left out is 0.  Words with ! say how the executor makes the
 * call: in the second thread, with a bad structure, with another stated size.  Parsing a printed
 * program yields the same program.
 *
 * Locks: none.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

void prog_print(FILE *f, const struct prog *p)
{
	for (unsigned int i = 0; i < p->n; i++) {
		const struct call *c = &p->calls[i];
		const struct call_spec *spec = &specs[c->kind];

		if (spec->makes[0])
			fprintf(f, "r%u = ", i);
		fprintf(f, "%s", spec->name);
		for (unsigned int j = 0; j < args_of(spec); j++) {
			const struct arg *a = &c->args[j];

			if (a->ref < 0)
				fprintf(f, " %s=%#llx", spec->args[j].name,
					(unsigned long long)a->value);
			else
				fprintf(f, " %s=r%d%s", spec->args[j].name, a->ref,
					a->slot ? ".1" : "");
		}
		if (c->async)
			fprintf(f, " !async");
		if (c->pass != PASS_WELL)
			fprintf(f, " !%s", pass_names[c->pass]);
		if (c->size)
			fprintf(f, " !size=%#x", c->size);
		fprintf(f, "\n");
	}
}

static bool parse_how(const char *word, struct call *c)
{
	if (!strcmp(word, "async")) {
		c->async = true;
		return true;
	}
	if (!strncmp(word, "size=", 5)) {
		c->size = strtoul(word + 5, NULL, 0);
		return true;
	}
	for (unsigned int i = 0; i < PASS_KINDS; i++) {
		if (!strcmp(word, pass_names[i])) {
			c->pass = i;
			return true;
		}
	}
	return false;
}

static bool parse_arg(char *word, unsigned int line, struct call *c)
{
	const struct call_spec *spec = &specs[c->kind];
	char *value = strchr(word, '='), *end;

	if (!value)
		return false;
	*value++ = 0;
	for (unsigned int i = 0; i < args_of(spec); i++) {
		struct arg *a = &c->args[i];

		if (strcmp(word, spec->args[i].name))
			continue;
		if (*value != 'r') {
			a->value = strtoull(value, &end, 0);
			return end != value && !*end;
		}
		a->ref = strtoul(value + 1, &end, 10);
		if (!strcmp(end, ".1"))
			a->slot = 1;
		else if (*end)
			return false;
		return a->ref < (int)line;
	}
	return false;
}

static bool parse_line(char *text, struct prog *p)
{
	struct call *c = &p->calls[p->n];
	char *word = strtok(text, " \n");
	unsigned int i;

	if (word && *word == 'r' && word[1] >= '0' && word[1] <= '9') {
		strtok(NULL, " \n");
		word = strtok(NULL, " \n");
	}
	if (!word)
		return false;
	for (i = 0; i < spec_count && strcmp(specs[i].name, word); i++)
		;
	if (i == spec_count)
		return false;
	*c = (struct call) { .kind = i };
	for (i = 0; i < MAX_ARGS; i++)
		c->args[i].ref = -1;
	while ((word = strtok(NULL, " \n")))
		if (*word == '!' ? !parse_how(word + 1, c) : !parse_arg(word, p->n, c))
			return false;
	p->n++;
	return true;
}

bool prog_parse(FILE *f, const char *name, struct prog *p)
{
	unsigned int line = 0;
	char text[1024];

	p->n = 0;
	while (fgets(text, sizeof(text), f)) {
		line++;
		if (*text == '#' || *text == '\n')
			continue;
		if (p->n == MAX_CALLS || !parse_line(text, p)) {
			fprintf(stderr, "%s:%u: not understood\n", name, line);
			return false;
		}
	}
	return p->n;
}
