#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| soft_hca_daemon::fuzz::parsers(data));
