//! The end of C's `utilities.c`, the statistics of a run; what comes before is in
//! [`common::utilities`].

use common::errln;
pub use common::utilities::*;

use crate::prototypes::{OurControl, OurOptions};

/// Prints how many completions there were and how long the run took.
pub fn our_print_statistics(conn: &mut OurControl, options: &OurOptions) {
    // mark the time we stop receiving
    conn.stop_usage = our_get_current_usage();
    conn.stop_time = our_get_current_time();

    let elapsed_time = our_get_elapsed_time(conn.start_time, conn.stop_time);
    let elapsed = our_get_elapsed_usage(&conn.start_usage, &conn.stop_usage);
    let duser = our_percentage_time(elapsed_time, elapsed.user);
    let dkernel = our_percentage_time(elapsed_time, elapsed.kernel);

    let message = &options.message;
    errln!("{message}: {} rdma_both completions", conn.wc_rdma_both);

    errln!(
        "{message}: {}.{:09} seconds elapsed time",
        elapsed_time.as_secs(),
        elapsed_time.subsec_nanos()
    );

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
