/* Each process sends a number to each, three times, and looks at what comes. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 3 };

int main(int count, char **arguments)
{
    int rank, size, wrong = 0, all_wrong;
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int *sent = malloc(size * sizeof *sent), *received = malloc(size * sizeof *received);
    for (int round = 0; round < ROUNDS; round++) {
        for (int to = 0; to < size; to++)
            sent[to] = (rank * size + to) * ROUNDS + round;
        double began = MPI_Wtime();
        MPI_Alltoall(sent, 1, MPI_INT, received, 1, MPI_INT, MPI_COMM_WORLD);
        for (int from = 0; from < size; from++)
            wrong += received[from] != (from * size + rank) * ROUNDS + round;
        if (!rank)
            printf("round %d: %.2f s\n", round + 1, MPI_Wtime() - began);
    }
    MPI_Reduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (!rank)
        printf("%d messages of %d hosts, %d wrong\n", ROUNDS * size * size, size, all_wrong);
    MPI_Finalize();
    return wrong != 0;
}
