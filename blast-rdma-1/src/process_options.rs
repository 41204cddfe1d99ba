//! The command line.

use common::errln;
use common::getopt::{Getopt, Switch};
use common::utilities::{OurResult, Reported, WHITE_SPACE};

use crate::prototypes::{
    OUR_DEFAULT_DATA_SIZE, OUR_DEFAULT_LIMIT, OUR_DEFAULT_N_DATA_BUFFERS, OUR_DEFAULT_PORT,
    OUR_MAX_SGES, OUR_MAX_USER_DATA_BUFFERS, OUR_RQ_DEPTH, OUR_SQ_DEPTH, OurOptions, PRINT_STATS,
    TRACING, VERBOSE_TRACING,
};
use crate::utilities::{
    our_report_string, our_report_uint64, our_report_ulong, our_scan_switch_port,
    our_scan_switch_uint64,
};

const OPTIONS: &str = ":a:p:c:htTs:xb:";

/// Reads the command line and reports what it asks for.
pub fn our_process_options(argv: &[String]) -> OurResult<OurOptions> {
    // our "message" is the last component of the executable's path
    let program = argv.first().map_or("", String::as_str);
    let message = program.rsplit('/').next().unwrap_or(program).to_string();

    // default option values, some of which the command line can override
    let mut options = OurOptions {
        server_name: String::new(),
        server_port: String::new(),
        message,
        server_port_number: OUR_DEFAULT_PORT,
        limit: OUR_DEFAULT_LIMIT,
        data_size: OUR_DEFAULT_DATA_SIZE,
        n_data_buffers: OUR_DEFAULT_N_DATA_BUFFERS,
        send_queue_depth: OUR_SQ_DEPTH,
        recv_queue_depth: OUR_RQ_DEPTH,
        max_send_sge: OUR_MAX_SGES as u32,
        max_recv_sge: OUR_MAX_SGES as u32,
        flags: 0,
    };

    let mut getopt = Getopt::new(argv, OPTIONS);
    for Switch { c, optarg, optopt } in getopt.by_ref() {
        match c {
            'h' => {
                errln!("The only required option is -a");
                errln!("-h this help message");
                errln!("-a DNS_name_or_IP_address of server");
                errln!("-p port_number of server (default {OUR_DEFAULT_PORT})");
                errln!("-c number_of_iterations (default {OUR_DEFAULT_LIMIT})");
                errln!(
                    "-s number_of_data_bytes in one data buffer (default {OUR_DEFAULT_DATA_SIZE})"
                );
                errln!("-b number_of_data_buffers (default {OUR_DEFAULT_N_DATA_BUFFERS})");
                errln!("-t turn on major trace printing");
                errln!("-T turn on detailed trace printing");
                errln!("-x print statistics at end of run");
            }
            'a' => {
                // IP name or address of server
                if optarg.trim_start_matches(WHITE_SPACE).is_empty() {
                    our_report_string("options", "invalid server name", &optarg, &options);
                    return Err(Reported);
                }
                options.server_name = optarg;
            }
            'p' => {
                // port number
                options.server_port_number = our_scan_switch_port(c, &optarg, &options.message)?;
            }
            'c' => {
                // number of messages to send
                options.limit = our_scan_switch_uint64(c, &optarg, &options.message)?;
            }
            'T' => options.flags |= VERBOSE_TRACING | TRACING,
            't' => options.flags |= TRACING,
            's' => {
                // size of one data buffer
                options.data_size = our_scan_switch_uint64(c, &optarg, &options.message)?;
            }
            'x' => options.flags |= PRINT_STATS,
            'b' => {
                // number of buffers to transfer
                options.n_data_buffers = our_scan_switch_uint64(c, &optarg, &options.message)?;
                if options.n_data_buffers > OUR_MAX_USER_DATA_BUFFERS as u64 {
                    errln!(
                        "n_data_buffers {} exceeds maximum allowed {OUR_MAX_USER_DATA_BUFFERS}",
                        options.n_data_buffers
                    );
                    return Err(Reported);
                }
            }
            ':' => {
                errln!("{}: missing parameter to '{optopt}'", options.message);
                return Err(Reported);
            }
            _ => {
                errln!("{}: unknown option '{optopt}'", options.message);
                return Err(Reported);
            }
        }
    }

    if options.server_name.is_empty() {
        // without the server's name we better not go on
        errln!("{}: no server name/address specified (use -a option)", options.message);
        return Err(Reported);
    }

    let mut extra = getopt.operands().peekable();
    if extra.peek().is_some() {
        // extra unused command-line parameters
        errln!("{}: extra unused command-line parameters", options.message);
        for (optind, parameter) in extra {
            errln!("{}: {optind:2}: {parameter}", options.message);
        }
        return Err(Reported);
    }

    // don't allocate more buffers than we will use
    options.n_data_buffers = options.n_data_buffers.min(options.limit);

    options.server_port = options.server_port_number.to_string();
    our_report_string("option", "server_name", &options.server_name, &options);
    our_report_ulong("option", "server_port", options.server_port_number, &options);
    our_report_uint64("option", "count", options.limit, &options);
    our_report_uint64("option", "data_size", options.data_size, &options);
    our_report_uint64("option", "n_data_buffers", options.n_data_buffers, &options);

    Ok(options)
}
