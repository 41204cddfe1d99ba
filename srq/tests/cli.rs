//! Numbers at and below the least that works. None of this needs an RDMA device.

use std::process::{Command, Output};

fn srq(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_srq")).args(args).output().expect("the program is built")
}

#[test]
fn numbers_that_cannot_work_are_refused_by_name() {
    for (flag, value, complaint) in [
        ("-c", "-1", "msg_count must be at least 0!\n"),
        ("-l", "-1", "msg_length must be at least 0!\n"),
        ("-q", "0", "qp_count must be at least 1!\n"),
        ("-q", "four", "qp_count must be at least 1!\n"),
        ("-w", "0", "max_wr must be at least 1!\n"),
        ("-w", "2147483648", "max_wr must be at least 1!\n"), // atoi gives -2147483648
    ] {
        for side in [&[][..], &["-s"]] {
            let output = srq(&[side, &["-a", "no-such-host.invalid", flag, value]].concat());
            assert_eq!(String::from_utf8_lossy(&output.stdout), complaint, "{flag} {value}");
            assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{flag} {value}");
            assert_eq!(output.status.code(), Some(1), "{flag} {value}");
        }
    }
}

#[test]
fn the_least_that_works_goes_on_to_the_address() {
    let output =
        srq(&["-a", "no-such-host.invalid", "-c", "0", "-l", "0", "-q", "1", "-w", "1", "operand"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.starts_with("rdma_getaddrinfo returned -"), "{stderr}");
    assert_eq!(output.status.code(), Some(1));
}
