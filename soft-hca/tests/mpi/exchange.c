/*
 * What programs with MPI do: a ring, a ping-pong in which every byte is compared, a sum over all
 * ranks. Needs two ranks or more. `mpi.rs` compiles and starts it.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { LAPS = 10, LARGEST = 1 << 20, ROUNDS = 3 };

static int rank, ranks;

static void fail(const char *what, long where)
{
    fprintf(stderr, "rank %d: %s %ld\n", rank, what, where);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* A token that each rank adds one to. */
static void ring(void)
{
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    for (int lap = 0; lap < LAPS; lap++) {
        long token = lap * ranks;
        if (rank == 0)
            MPI_Send(&token, 1, MPI_LONG, next, lap, MPI_COMM_WORLD);
        MPI_Recv(&token, 1, MPI_LONG, before, lap, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        long met = rank == 0 ? ranks - 1 : rank - 1;
        if (token != lap * ranks + met)
            fail("wrong token", token);
        token++;
        if (rank != 0)
            MPI_Send(&token, 1, MPI_LONG, next, lap, MPI_COMM_WORLD);
    }
    if (rank == 0)
        printf("ring: %d laps, %d ranks\n", LAPS, ranks);
}

/* Differs from message to message, and from one direction to the other. */
static unsigned char byte(int seed, int at)
{
    return (unsigned char)((unsigned)(at + 1) * 2654435761u * (unsigned)(2 * seed + 1) >> 24);
}

static void give(unsigned char *buffer, int size, int to, int seed)
{
    for (int at = 0; at < size; at++)
        buffer[at] = byte(seed, at);
    MPI_Send(buffer, size, MPI_BYTE, to, seed, MPI_COMM_WORLD);
}

static void take(unsigned char *buffer, int size, int from, int seed)
{
    int count;
    MPI_Status status;
    for (int at = 0; at <= size; at++)
        buffer[at] = (unsigned char)~byte(seed, at);
    /* There is room for one byte more than may come. */
    MPI_Recv(buffer, size + 1, MPI_BYTE, from, seed, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_BYTE, &count);
    if (count != size)
        fail("wrong size", count);
    for (int at = 0; at < size; at++)
        if (buffer[at] != byte(seed, at))
            fail("wrong byte", at);
    if (buffer[size] == byte(seed, size))
        fail("byte behind the message", size);
}

static void ping_pong(void)
{
    unsigned char *buffer = malloc(LARGEST + 1);
    int seed = 0;
    if (!buffer)
        fail("no memory", LARGEST);
    for (int size = 1; rank < 2 && size <= LARGEST; size *= 2) {
        for (int round = 0; round < ROUNDS; round++, seed += 2) {
            if (rank == 0)
                give(buffer, size, 1, seed);
            else
                take(buffer, size, 0, seed);
            if (rank == 1)
                give(buffer, size, 0, seed + 1);
            else
                take(buffer, size, 1, seed + 1);
        }
    }
    free(buffer);
    if (rank == 0)
        printf("ping-pong: to %d bytes, %d messages checked\n", LARGEST, seed);
}

static void allreduce(void)
{
    static const int counts[] = { 1, 1000, 100000 };
    for (int which = 0; which < 3; which++) {
        int count = counts[which];
        long *mine = malloc(sizeof *mine * count), *sums = malloc(sizeof *sums * count);
        if (!mine || !sums)
            fail("no memory", count);
        for (int at = 0; at < count; at++)
            mine[at] = (long)(rank + 1) * at + which;
        MPI_Allreduce(mine, sums, count, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        for (int at = 0; at < count; at++)
            if (sums[at] != (long)ranks * (ranks + 1) / 2 * at + (long)ranks * which)
                fail("wrong sum", at);
        free(mine);
        free(sums);
    }
    if (rank == 0)
        printf("allreduce: to %d numbers\n", counts[2]);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks < 2)
        fail("ranks:", ranks);
    ring();
    ping_pong();
    allreduce();
    MPI_Finalize();
    return 0;
}
