//! The command line.

use common::errln;
use common::getopt::{Getopt, Switch};
use common::utilities::{OurResult, Reported, WHITE_SPACE};

use crate::prototypes::{
    OUR_DEFAULT_DATA_SIZE, OUR_DEFAULT_LIMIT, OUR_DEFAULT_PORT, OUR_MAX_SGES, OUR_RQ_DEPTH,
    OUR_SQ_DEPTH, OurOptions, PRINT_STATS, TRACING, VERBOSE_TRACING, VERIFY,
};
use crate::utilities::{
    our_report_string, our_report_uint64, our_report_ulong, our_scan_switch_port,
    our_scan_switch_uint64,
};

const OPTIONS: &str = ":a:p:c:hvtTs:x";

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
                errln!("-s number_of_data_bytes in one message (default {OUR_DEFAULT_DATA_SIZE})");
                errln!("-v turn on verification of pong data (client only)");
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
            'v' => options.flags |= VERIFY,
            'T' => options.flags |= VERBOSE_TRACING | TRACING,
            't' => options.flags |= TRACING,
            's' => {
                // size of data to transfer
                options.data_size = our_scan_switch_uint64(c, &optarg, &options.message)?;
            }
            'x' => options.flags |= PRINT_STATS,
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

    options.server_port = options.server_port_number.to_string();
    our_report_string("option", "server_name", &options.server_name, &options);
    our_report_ulong("option", "server_port", options.server_port_number, &options);
    our_report_uint64("option", "count", options.limit, &options);
    our_report_uint64("option", "data_size", options.data_size, &options);

    Ok(options)
}
