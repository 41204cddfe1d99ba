/*
 * A client of llama.cpp's RPC server, by ggml, the library that both are made of.
 *
 *   matrices HOST:PORT
 *
 * It sends matrices of 8 bytes to 64 MiB, has them multiplied, and compares the product, and what comes back of the
 * matrix itself. Elements are small whole numbers, whose sums a float holds exactly.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-rpc.h>
#include <ggml.h>

static void fail(const char *what)
{
    fprintf(stderr, "matrices: %s\n", what);
    exit(1);
}

static void fill(float *numbers, size_t count, unsigned seed)
{
    for (size_t at = 0; at < count; at++) {
        seed = seed * 1664525 + 1013904223;
        numbers[at] = (float)(seed >> 29) - 4;
    }
}

/* Multiplies a matrix of rows x shared elements by one of shared x columns. */
static void multiply(ggml_backend_t backend, int64_t shared, int64_t rows, int64_t columns)
{
    size_t left_count = shared * rows, right_count = shared * columns, count = rows * columns;
    float *left = malloc(left_count * sizeof *left), *right = malloc(right_count * sizeof *right);
    float *back = malloc(left_count * sizeof *back), *product = malloc(count * sizeof *product);
    struct ggml_context *context = ggml_init((struct ggml_init_params){
        .mem_size = 8 * ggml_tensor_overhead() + ggml_graph_overhead(),
        .no_alloc = true,
    });
    if (!left || !right || !back || !product || !context)
        fail("no memory");
    struct ggml_tensor *a = ggml_new_tensor_2d(context, GGML_TYPE_F32, shared, rows);
    struct ggml_tensor *b = ggml_new_tensor_2d(context, GGML_TYPE_F32, shared, columns);
    struct ggml_tensor *c = ggml_mul_mat(context, a, b);
    struct ggml_cgraph *graph = ggml_new_graph(context);
    ggml_build_forward_expand(graph, c);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(context, backend);
    if (!buffer)
        fail("no memory at the server");

    fill(left, left_count, 1);
    fill(right, right_count, 2);
    ggml_backend_tensor_set(a, left, 0, ggml_nbytes(a));
    ggml_backend_tensor_set(b, right, 0, ggml_nbytes(b));
    if (ggml_backend_graph_compute(backend, graph) != GGML_STATUS_SUCCESS)
        fail("the server has not multiplied");
    ggml_backend_tensor_get(a, back, 0, ggml_nbytes(a));
    ggml_backend_tensor_get(c, product, 0, ggml_nbytes(c));

    if (memcmp(back, left, ggml_nbytes(a)) != 0)
        fail("the matrix has come back as another one");
    for (int64_t column = 0; column < columns; column++)
        for (int64_t row = 0; row < rows; row++) {
            float sum = 0;
            for (int64_t at = 0; at < shared; at++)
                sum += left[row * shared + at] * right[column * shared + at];
            if (product[column * rows + row] != sum)
                fail("the product is wrong");
        }
    printf("%zu bytes: multiplied, read\n", ggml_nbytes(a));
    fflush(stdout);
    ggml_backend_buffer_free(buffer);
    ggml_free(context);
    free(left);
    free(right);
    free(back);
    free(product);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        fail("HOST:PORT is missing");
    ggml_backend_reg_t server = ggml_backend_rpc_add_server(argv[1]);
    if (!server)
        fail("there is no server");
    ggml_backend_t backend = ggml_backend_dev_init(ggml_backend_reg_dev_get(server, 0), NULL);
    if (!backend)
        fail("the server's device does not start");
    static const int64_t sizes[][3] = {
        {2, 1, 1}, {1024, 1, 4}, {1024, 16, 4}, {1024, 256, 4}, {4096, 4096, 4},
    };
    for (size_t at = 0; at < sizeof sizes / sizeof *sizes; at++)
        multiply(backend, sizes[at][0], sizes[at][1], sizes[at][2]);
    ggml_backend_free(backend);
    return 0;
}
