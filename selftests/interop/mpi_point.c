// SPDX-License-Identifier: GPL-2.0
/* Cases of MPI between two ranks: rank 0 and rank 1 exchange, further ranks form pairs alike. */
#include <string.h>

#include "mpi.h"

#define DEPTH	4
#define PARTS	8

/* The other rank of this rank's pair; -1 for a last rank without one. */
static int partner(void)
{
	int other = rank ^ 1;

	return other < ranks ? other : -1;
}

static long send_recv(enum kind kind)
{
	struct buffer b = get(kind, LARGEST);
	int other = partner(), count;
	long wrong = 0;
	MPI_Status s;

	for (int i = 0; i < size_count && other >= 0; i++) {
		int size = (int)sizes[i];

		if (!(rank & 1)) {
			fill(&b, 0, sizes[i], (unsigned int)i);
			MPI(MPI_Send(b.at, size, MPI_BYTE, other, i, MPI_COMM_WORLD));
			clear(&b);
			MPI(MPI_Recv(b.at, size, MPI_BYTE, other, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
			wrong += differs(&b, 0, sizes[i], 50u + (unsigned int)i);
		} else {
			MPI(MPI_Probe(other, MPI_ANY_TAG, MPI_COMM_WORLD, &s));
			MPI(MPI_Get_count(&s, MPI_BYTE, &count));
			wrong += count != size || s.MPI_TAG != i;
			MPI(MPI_Recv(b.at, count, MPI_BYTE, other, i, MPI_COMM_WORLD, &s));
			wrong += differs(&b, 0, sizes[i], (unsigned int)i);
			fill(&b, 0, sizes[i], 50u + (unsigned int)i);
			MPI(MPI_Ssend(b.at, size, MPI_BYTE, other, i, MPI_COMM_WORLD));
		}
	}
	put(&b);
	return wrong;
}

/* Messages in flight in both directions, received in another order, while the engine copies. */
static long nonblocking(enum kind kind)
{
	int other = partner();
	long wrong = 0;

	for (int i = 0; i < size_count && other >= 0; i++) {
		size_t each = sizes[i] / DEPTH ? sizes[i] / DEPTH : 1;
		struct buffer out = get(kind, each * DEPTH), in = get(kind, each * DEPTH);
		MPI_Request r[2 * DEPTH];

		for (int k = 0; k < DEPTH; k++)
			fill(&out, (size_t)k * each, each, (unsigned int)(10 * rank + k));
		bystander_run();
		for (int k = 0; k < DEPTH; k++)
			MPI(MPI_Irecv(in.at + (size_t)(DEPTH - 1 - k) * each, (int)each, MPI_BYTE, other,
				      DEPTH - 1 - k, MPI_COMM_WORLD, &r[k]));
		for (int k = 0; k < DEPTH; k++)
			MPI(MPI_Isend(out.at + (size_t)k * each, (int)each, MPI_BYTE, other, k,
				      MPI_COMM_WORLD, &r[DEPTH + k]));
		MPI(MPI_Waitall(2 * DEPTH, r, MPI_STATUSES_IGNORE));
		for (int k = 0; k < DEPTH; k++) {
			wrong += differs(&in, (size_t)k * each, each, (unsigned int)(10 * other + k));
			wrong += differs(&out, (size_t)k * each, each, (unsigned int)(10 * rank + k));
		}
		put(&out);
		put(&in);
	}
	return wrong;
}

/* All ranks in a ring; in place at last. */
static long ring(enum kind kind)
{
	int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
	struct buffer out = get(kind, LARGEST), in = get(kind, LARGEST);
	long wrong = 0;

	for (int i = 0; i < size_count; i++) {
		fill(&out, 0, sizes[i], (unsigned int)(rank + i));
		MPI(MPI_Sendrecv(out.at, (int)sizes[i], MPI_BYTE, next, 1, in.at, (int)sizes[i], MPI_BYTE,
				 before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
		wrong += differs(&in, 0, sizes[i], (unsigned int)(before + i));
		MPI(MPI_Sendrecv_replace(out.at, (int)sizes[i], MPI_BYTE, next, 2, before, 2,
					 MPI_COMM_WORLD, MPI_STATUS_IGNORE));
		wrong += differs(&out, 0, sizes[i], (unsigned int)(before + i));
	}
	put(&out);
	put(&in);
	return wrong;
}

static long persistent(enum kind kind)
{
	int other = partner();
	long wrong = 0;

	for (int i = 0; i < size_count && other >= 0; i++) {
		struct buffer out = get(kind, sizes[i]), in = get(kind, sizes[i]);
		MPI_Request r[2];

		MPI(MPI_Recv_init(in.at, (int)sizes[i], MPI_BYTE, other, 3, MPI_COMM_WORLD, &r[0]));
		MPI(MPI_Send_init(out.at, (int)sizes[i], MPI_BYTE, other, 3, MPI_COMM_WORLD, &r[1]));
		for (unsigned int turn = 0; turn < 3; turn++) {
			fill(&out, 0, sizes[i], turn + (unsigned int)rank);
			MPI(MPI_Startall(2, r));
			MPI(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
			wrong += differs(&in, 0, sizes[i], turn + (unsigned int)other);
		}
		MPI(MPI_Request_free(&r[0]));
		MPI(MPI_Request_free(&r[1]));
		put(&out);
		put(&in);
	}
	return wrong;
}

/* The engine fills one part after the other; each one is declared ready when its event is over. */
static long partitioned(enum kind kind)
{
	static const int order[PARTS] = { 3, 0, 7, 1, 6, 2, 5, 4 };
	int other = partner();
	long wrong = 0;

	for (int i = 0; i < size_count && other >= 0; i++) {
		size_t part = (sizes[i] + PARTS - 1) / PARTS;
		struct buffer out = get(kind, part * PARTS), in = get(kind, part * PARTS);
		MPI_Request r[2];
		int here = 0;

		MPI(MPI_Precv_init(in.at, PARTS, (MPI_Count)part, MPI_BYTE, other, 4, MPI_COMM_WORLD,
				   MPI_INFO_NULL, &r[0]));
		MPI(MPI_Psend_init(out.at, PARTS, (MPI_Count)part, MPI_BYTE, other, 4, MPI_COMM_WORLD,
				   MPI_INFO_NULL, &r[1]));
		for (unsigned int turn = 0; turn < 2; turn++) {
			MPI(MPI_Startall(2, r));
			for (int k = 0; k < PARTS; k++) {
				fill(&out, (size_t)order[k] * part, part,
				     turn + (unsigned int)(order[k] + 20 * rank));
				MPI(MPI_Pready(order[k], r[1]));
			}
			while (!here)
				MPI(MPI_Parrived(r[0], PARTS - 1, &here));
			wrong += differs(&in, (PARTS - 1) * part, part,
					 turn + (unsigned int)(PARTS - 1 + 20 * other));
			MPI(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
			for (int k = 0; k < PARTS; k++)
				wrong += differs(&in, (size_t)k * part, part,
						 turn + (unsigned int)(k + 20 * other));
			here = 0;
		}
		MPI(MPI_Request_free(&r[0]));
		MPI(MPI_Request_free(&r[1]));
		put(&out);
		put(&in);
	}
	return wrong;
}

/* Send one @type out of a matrix and receive it as bytes; then back into a clear matrix. */
static long one_type(enum kind kind, MPI_Datatype type, size_t bytes, int other)
{
	struct buffer matrix = get(kind, bytes), flat;
	uint8_t *model = malloc(bytes), *got = malloc(bytes), *packed;
	int size, at = 0;
	long wrong = 0;

	MPI(MPI_Type_commit(&type));
	MPI(MPI_Type_size(type, &size));
	packed = malloc((size_t)size);
	flat = get(kind, (size_t)size);
	if (!model || !got || !packed)
		fail(__FILE__, __LINE__, "malloc", "no memory");
	fill(&matrix, 0, bytes, 5);
	for (size_t i = 0; i < bytes; i++)
		model[i] = pattern(5, i);
	/* What the type makes of plain memory is the model. */
	MPI(MPI_Pack(model, 1, type, packed, size, &at, MPI_COMM_WORLD));
	MPI(MPI_Sendrecv(matrix.at, 1, type, other, 5, flat.at, size, MPI_BYTE, other, 5, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE));
	wrong += read_out(&flat, got) + (memcmp(got, packed, (size_t)size) != 0);
	clear(&matrix);
	MPI(MPI_Sendrecv(flat.at, size, MPI_BYTE, other, 6, matrix.at, 1, type, other, 6, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE));
	memset(model, 0xee, bytes);
	at = 0;
	MPI(MPI_Unpack(packed, size, &at, model, 1, type, MPI_COMM_WORLD));
	wrong += read_out(&matrix, got) + (memcmp(got, model, bytes) != 0);
	/* Packing device memory into device memory. */
	clear(&flat);
	at = 0;
	MPI(MPI_Pack(matrix.at, 1, type, flat.at, size, &at, MPI_COMM_WORLD));
	wrong += read_out(&flat, got) + (memcmp(got, packed, (size_t)size) != 0);
	MPI(MPI_Type_free(&type));
	put(&matrix);
	put(&flat);
	free(model);
	free(got);
	free(packed);
	return wrong;
}

static long derived(enum kind kind)
{
	static const int whole[2] = { 512, 640 }, part[2] = { 100, 333 }, start[2] = { 41, 67 };
	static const int length[3] = { 1, 70, 4000 }, place[3] = { 0, 9, 30000 };
	MPI_Aint byte[3] = { 3, 1024, 99991 };
	MPI_Datatype types[3] = { MPI_CHAR, MPI_INT, MPI_DOUBLE }, t;
	int other = partner();
	long wrong = 0;

	if (other < 0)
		return 0;
	MPI(MPI_Type_vector(500, 3, 100, MPI_INT, &t));
	wrong += one_type(kind, t, 500 * 100 * 4, other);
	MPI(MPI_Type_vector(16, 20000, 32768, MPI_DOUBLE, &t));
	wrong += one_type(kind, t, 16 * 32768 * 8, other);
	MPI(MPI_Type_indexed(3, length, place, MPI_SHORT, &t));
	wrong += one_type(kind, t, 70000, other);
	MPI(MPI_Type_create_struct(3, length, byte, types, &t));
	wrong += one_type(kind, t, 99991 + 4000 * 8, other);
	MPI(MPI_Type_create_subarray(2, whole, part, start, MPI_ORDER_C, MPI_FLOAT, &t));
	wrong += one_type(kind, t, 512 * 640 * 4, other);
	return wrong;
}

const struct mpi_case point_cases[] = {
	{ "send-recv", send_recv }, { "nonblocking", nonblocking }, { "ring", ring },
	{ "persistent", persistent }, { "partitioned", partitioned }, { "derived", derived },
	{ NULL, NULL },
};
