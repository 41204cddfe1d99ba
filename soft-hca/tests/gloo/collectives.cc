/*
 * Collectives of Gloo over its ibverbs transport: one rank of a job.
 *
 *   collectives RANK SIZE FOLDER
 *
 * Ranks find each other by files in FOLDER. Each compares what it gets with what it can work out by itself.
 */
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unistd.h>
#include <vector>

#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/barrier_all_to_all.h>
#include <gloo/broadcast_one_to_all.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/ibverbs/device.h>

using Numbers = std::vector<long>;

/* What a rank has at a place before a sum. */
static long share(int rank, size_t at)
{
    return (rank + 1) * 1000003L + static_cast<long>(at);
}

static void check(bool is_right, const char *what, size_t count)
{
    if (!is_right) {
        std::fprintf(stderr, "%s of %zu numbers: wrong\n", what, count);
        std::_Exit(1);
    }
}

/*
 * Algorithms are made for good: what they have sent need not be complete when they have run, and then the destructors of
 * their buffers end the process.
 */
template <class Algorithm, class... Arguments>
static gloo::Algorithm *made(Arguments... arguments)
{
    return new Algorithm(arguments...);
}

static Numbers &numbers_for(size_t count)
{
    return *new Numbers(count);
}

template <class Algorithm>
static void sum(const std::shared_ptr<gloo::Context> &context, const char *name, size_t count)
{
    Numbers &numbers = numbers_for(count);
    std::vector<long *> places = {numbers.data()};
    auto algorithm = made<Algorithm>(context, places, static_cast<int>(count));
    /* Twice, as buffers are used again. */
    for (int round = 0; round < 2; round++) {
        for (size_t at = 0; at < count; at++)
            numbers[at] = share(context->rank, at);
        algorithm->run();
        for (size_t at = 0; at < count; at++) {
            long all = 0;
            for (int rank = 0; rank < context->size; rank++)
                all += share(rank, at);
            check(numbers[at] == all, name, count);
        }
    }
}

static void broadcast(const std::shared_ptr<gloo::Context> &context, int root, size_t count)
{
    Numbers &numbers = numbers_for(count);
    for (size_t at = 0; at < count; at++)
        numbers[at] = share(context->rank, at);
    std::vector<long *> places = {numbers.data()};
    made<gloo::BroadcastOneToAll<long>>(context, places, static_cast<int>(count), root)->run();
    for (size_t at = 0; at < count; at++)
        check(numbers[at] == share(root, at), "broadcast", count);
}

/*
 * A rank that is through a barrier may still have to send for others to get through it, so all wait for all by other
 * means.
 */
static void end_with_others(gloo::rendezvous::Store &store, int rank, int size)
{
    std::vector<std::string> ends;
    for (int other = 0; other < size; other++)
        ends.push_back("end-" + std::to_string(other));
    store.set(ends[rank], std::vector<char>(1));
    store.wait(ends);
}

/* Newer releases share the store with their caller. */
template <class Context, class Store, class Device>
static auto connect(Context &context, const std::shared_ptr<Store> &store, Device &device, int)
    -> decltype(context.connectFullMesh(store, device))
{
    context.connectFullMesh(store, device);
}

template <class Context, class Store, class Device>
static void connect(Context &context, const std::shared_ptr<Store> &store, Device &device, long)
{
    context.connectFullMesh(*store, device);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        std::fprintf(stderr, "usage: collectives RANK SIZE FOLDER\n");
        return 2;
    }
    const int rank = std::atoi(argv[1]), size = std::atoi(argv[2]);
    auto device = gloo::transport::ibverbs::CreateDevice({"rxe0", 1, 1});
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
    auto store = std::make_shared<gloo::rendezvous::FileStore>(argv[3]);
    connect(*context, store, device, 0);
    for (size_t count : {size_t(1), size_t(1000), size_t(1) << 20}) {
        sum<gloo::AllreduceRing<long>>(context, "ring", count);
        sum<gloo::AllreduceRingChunked<long>>(context, "chunked ring", count);
        sum<gloo::AllreduceHalvingDoubling<long>>(context, "halving and doubling", count);
        for (int root = 0; root < size; root++)
            broadcast(context, root, count);
        made<gloo::BarrierAllToAll>(context)->run();
        std::printf("%zu numbers: right\n", count);
    }
    std::fflush(stdout);
    end_with_others(*store, rank, size);
    /* Without destructors, in which Gloo's pairs race with its device's thread. */
    _exit(0);
}
