// SPDX-License-Identifier: MIT
/* Registered memory is unmapped. */
#include "begin.h"

#include <sys/mman.h>

int main(void)
{
	void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	begin();
	cuMemHostRegister(memory, 4096, 0);
	munmap(memory, 4096);
	cuMemHostUnregister(memory);
	end();
}
