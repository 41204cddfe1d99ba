//! The end of C's `utilities.c`, the statistics of a run; what comes before is in
//! [`common::utilities`].

use std::array;

use common::errln;
pub use common::utilities::*;

use crate::process_completions::print_ibv_poll_cq_stats;
use crate::prototypes::{OurControl, OurOptions, PRINT_STATS};

/// Contents of the first buffer, as a number of this host.
pub fn our_counter(conn: &OurControl) -> u64 {
    u64::from_ne_bytes(array::from_fn(|i| conn.user_data[0][i].get()))
}

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
    errln!("{message}: {} atomic completions", conn.wc_atomic);

    let print_stats = options.flags & PRINT_STATS != 0;
    if print_stats && dlapse > 0.0 && conn.wc_atomic > 0 {
        let rate = conn.wc_atomic as f64 / dlapse;
        errln!("{message}: {rate:.6} Messages per second");
        errln!("{message}: {:.3} microseconds per round-trip", 1000000.0 / rate);
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
