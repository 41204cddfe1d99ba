//! The end of C's `utilities.c`, the statistics of a run; what comes before is in
//! [`common::utilities`].

use common::errln;
pub use common::utilities::*;

use crate::process_completions::print_ibv_poll_cq_stats;
use crate::prototypes::{OurControl, OurOptions, PRINT_STATS};

/// Prints how many completions there were and how long the run took; with `-x` the rates, too.
pub fn our_print_statistics(conn: &mut OurControl, options: &OurOptions) {
    // mark the time we stop receiving
    conn.stop_usage = our_get_current_usage();
    conn.stop_time = our_get_current_time();

    let elapsed_time = our_get_elapsed_time(conn.start_time, conn.stop_time);
    let elapsed = our_get_elapsed_usage(&conn.start_usage, &conn.stop_usage);
    let dlapse = elapsed_time.as_secs_f64();
    let duser = our_percentage_time(elapsed_time, elapsed.user);
    let dkernel = our_percentage_time(elapsed_time, elapsed.kernel);

    let message = &options.message;
    errln!("{message}: {} rdma_both completions", conn.wc_rdma_both);

    let print_stats = options.flags & PRINT_STATS != 0;
    if print_stats {
        let completions = (conn.wc_rdma_both * 2) as f64;
        if dlapse > 0.0 && completions > 0.0 {
            let bytes = completions * options.data_size as f64;
            errln!("{message}: {:.6} Messages per second", completions / dlapse);
            errln!("{message}: {:.6} Megabits per second", 8.0 * bytes / (dlapse * 1000000.0));
        }
        if conn.wc_rdma_both > 0 {
            let round_trip = 1000000.0 * dlapse / conn.wc_rdma_both as f64;
            errln!("{message}: {round_trip:.3} microseconds per round-trip");
        }
    }

    errln!(
        "{message}: {}.{:09} seconds elapsed time",
        elapsed_time.as_secs(),
        elapsed_time.subsec_nanos()
    );
    if print_stats {
        errln!(
            "{message}: {}.{:09} seconds user time ({duser:.4}%)",
            elapsed.user.as_secs(),
            elapsed.user.subsec_nanos()
        );
        errln!(
            "{message}: {}.{:09} seconds kernel time ({dkernel:.4}%)",
            elapsed.kernel.as_secs(),
            elapsed.kernel.subsec_nanos()
        );
    }

    print_ibv_poll_cq_stats(conn, options);
}
